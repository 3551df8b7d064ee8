import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListStreamsGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * An application with group.protocol=streams counts the records of a topic by the last digit of
 * their value, which takes a repartition topic and a changelog. An admin client describes and
 * deletes its group. Prints what does not depend on times, ids and addresses.
 */
public final class StreamsProgram {
    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0], topic = arguments[1], group = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        String guarantee = arguments[4], result = group + "-result";
        Path folder = Files.createTempDirectory("groupferry-streams");
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("application.id", group);
        settings.put("group.protocol", "streams");
        settings.put("processing.guarantee", guarantee);
        settings.put("commit.interval.ms", "500");
        settings.put("state.dir", folder.toString());
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        settings.put("consumer.auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(topic)
            .selectKey((key, value) -> value.substring(value.length() - 1))
            .groupByKey()
            .count(Materialized.as(Stores.inMemoryKeyValueStore("counts")))
            .toStream()
            .mapValues(number -> Long.toString(number))
            .to(result);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            admin.createTopics(List.of(new NewTopic(result, 3, (short) 1))).all().get();
            try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
                streams.start();
                System.out.println("counted " + counted(servers, result, count));
                System.out.println("listed " + listing(admin, group));
                StreamsGroupDescription described =
                    admin.describeStreamsGroups(List.of(group)).all().get().get(group);
                System.out.println("state " + described.groupState()
                    + ", members " + described.members().size()
                    + ", subtopologies " + described.subtopologies().size());
            }
            // Three partitions of the topic, and of the repartition topic.
            System.out.println("committed " + admin
                .listStreamsGroupOffsets(Map.of(group, new ListStreamsGroupOffsetsSpec()))
                .partitionsToOffsetAndMetadata(group).get().size());
            until(admin, group);
            admin.deleteStreamsGroups(List.of(group)).all().get();
            System.out.println("left " + listing(admin, group));
        }
    }

    /** The sum of the latest counts, once it is what is expected. */
    private static long counted(String servers, String topic, int expected) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", servers,
            "key.deserializer", StringDeserializer.class.getName(),
            "value.deserializer", StringDeserializer.class.getName(),
            "isolation.level", "read_committed",
            "auto.offset.reset", "earliest");
        Map<String, Long> counts = new TreeMap<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                .map(each -> new TopicPartition(topic, each.partition())).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (sum(counts) < expected) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(200))) {
                    counts.put(each.key(), Long.parseLong(each.value()));
                }
            }
        }
        return sum(counts);
    }

    private static long sum(Map<String, Long> counts) {
        return counts.values().stream().mapToLong(Long::longValue).sum();
    }

    /** Waits until the group is empty. */
    private static void until(Admin admin, String group) throws Exception {
        while (!admin.describeStreamsGroups(List.of(group)).all().get().get(group).members()
            .isEmpty()) {
            Thread.sleep(100);
        }
    }

    private static List<String> listing(Admin admin, String group) throws Exception {
        return admin.listGroups().all().get().stream()
            .filter(each -> each.groupId().equals(group))
            .map(GroupListing::toString)
            .map(text -> text.replace(group, "<group>"))
            .toList();
    }
}
