import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ConcurrentMessageListenerContainer;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.DefaultAfterRollbackProcessor;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.kafka.transaction.KafkaTransactionManager;
import org.springframework.util.backoff.FixedBackOff;

/**
 * Two listeners of Spring copy a topic in transactions. Each tenth record fails once, is rolled
 * back and read again. Prints what does not depend on times, ids and addresses.
 */
public final class SpringProgram {
    public static void main(String[] arguments) {
        String servers = arguments[0], topic = arguments[1], group = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        String protocol = arguments[4], copy = group + "-copy";
        Map<String, Object> reading = new HashMap<>(Map.of(
            "bootstrap.servers", servers,
            "group.id", group,
            "group.protocol", protocol,
            "auto.offset.reset", "earliest",
            "isolation.level", "read_committed",
            "enable.auto.commit", false));
        var consumers = new DefaultKafkaConsumerFactory<>(
            reading, new StringDeserializer(), new StringDeserializer());
        var producers = new DefaultKafkaProducerFactory<>(
            Map.<String, Object>of("bootstrap.servers", servers),
            new StringSerializer(), new StringSerializer());
        producers.setTransactionIdPrefix(group + "-");
        var template = new KafkaTemplate<>(producers);
        Set<String> failed = ConcurrentHashMap.newKeySet();
        ContainerProperties settings = new ContainerProperties(topic);
        settings.setKafkaAwareTransactionManager(new KafkaTransactionManager<>(producers));
        settings.setMessageListener((MessageListener<String, String>) record -> {
            template.send(copy, record.value());
            if (record.value().endsWith("0") && failed.add(record.value())) {
                throw new IllegalStateException("not this time");
            }
        });
        var listeners = new ConcurrentMessageListenerContainer<>(consumers, settings);
        listeners.setConcurrency(2);
        listeners.setAfterRollbackProcessor(
            new DefaultAfterRollbackProcessor<>(new FixedBackOff(0, 5)));
        listeners.start();
        List<String> values = copied(servers, copy, count);
        System.out.println("copied " + values.size() + ", values "
            + new HashSet<>(values).size() + ", failed " + failed.size());
        System.out.println("assigned " + listeners.getAssignedPartitions().size());
        listeners.stop();
        producers.destroy();
    }

    /** The values in a topic that appears meanwhile, once there are so many. */
    private static List<String> copied(String servers, String topic, int count) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", servers,
            "group.id", topic + "-reader",
            "key.deserializer", StringDeserializer.class.getName(),
            "value.deserializer", StringDeserializer.class.getName(),
            "isolation.level", "read_committed",
            "metadata.max.age.ms", 500,
            "auto.offset.reset", "earliest");
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(topic));
            while (values.size() < count) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(200))) {
                    values.add(each.value());
                }
            }
        }
        return values;
    }
}
