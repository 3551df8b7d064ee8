// Asks for topics by id, BOOTSTRAP TOPIC GROUP: as an admin, and as a consumer with a SubscriptionPattern.
// Prints the topic's name, and the value of the first record.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.serialization.StringDeserializer;

public class TopicsById {
    private static final long LIMIT_MS = 60_000;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            Uuid id = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId();
            TopicCollection ids = TopicCollection.ofTopicIds(List.of(id));
            System.out.println(admin.describeTopics(ids).allTopicIds().get().get(id).name());
        }
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0],
            "group.id", arguments[2],
            "group.protocol", "consumer",
            "auto.offset.reset", "earliest");
        StringDeserializer strings = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings, strings, strings)) {
            consumer.subscribe(new SubscriptionPattern(topic));
            long endsAt = System.currentTimeMillis() + LIMIT_MS;
            while (System.currentTimeMillis() < endsAt) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<String, String> each : records) {
                    System.out.println(each.value());
                    return;
                }
            }
        }
    }
}
