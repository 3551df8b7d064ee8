import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListStreamsGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * An application counts the records of a topic by the last digit of their value, which takes a
 * repartition topic and a changelog. Its group.protocol is "streams" or "classic". An admin client
 * describes and deletes its group. Prints what does not depend on times, ids and addresses.
 */
public final class StreamsProgram {
    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0], topic = arguments[1], group = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        String protocol = arguments[4], guarantee = arguments[5], result = group + "-result";
        Path folder = Files.createTempDirectory("groupferry-streams");
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("application.id", group);
        settings.put("group.protocol", protocol);
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
                streams.setUncaughtExceptionHandler(problem -> {
                    problem.printStackTrace();
                    Runtime.getRuntime().halt(1);
                    return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
                });
                streams.start();
                System.out.println("counted " + counted(servers, result, count));
                System.out.println("listed " + listing(admin, group));
                System.out.println("described " + (protocol.equals("streams")
                    ? shown(streamsGroup(admin, group)) : shown(classicGroup(admin, group))));
            }
            // Three partitions of the topic, and of the repartition topic.
            if (protocol.equals("streams")) {
                System.out.println("committed " + admin
                    .listStreamsGroupOffsets(Map.of(group, new ListStreamsGroupOffsetsSpec()))
                    .partitionsToOffsetAndMetadata(group).get().size());
                while (!streamsGroup(admin, group).members().isEmpty()) {
                    Thread.sleep(100);
                }
                admin.deleteStreamsGroups(List.of(group)).all().get();
            } else {
                System.out.println("committed " + admin.listConsumerGroupOffsets(group)
                    .partitionsToOffsetAndMetadata(group).get().size());
                // A classic application that is closed does not leave its group.
                admin.removeMembersFromConsumerGroup(
                    group, new RemoveMembersFromConsumerGroupOptions()).all().get();
                admin.deleteConsumerGroups(List.of(group)).all().get();
            }
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
            List<TopicPartition> partitions = Stream.of(0, 1, 2)
                .map(number -> new TopicPartition(topic, number)).toList();
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

    private static StreamsGroupDescription streamsGroup(Admin admin, String group)
            throws Exception {
        return admin.describeStreamsGroups(List.of(group)).all().get().get(group);
    }

    private static ClassicGroupDescription classicGroup(Admin admin, String group)
            throws Exception {
        return admin.describeClassicGroups(List.of(group)).all().get().get(group);
    }

    private static String shown(StreamsGroupDescription group) {
        return group.groupState() + ", members " + group.members().size()
            + ", subtopologies " + group.subtopologies().size();
    }

    private static String shown(ClassicGroupDescription group) {
        return group.state() + ", members " + group.members().size()
            + ", protocol " + group.protocolData();
    }

    private static List<String> listing(Admin admin, String group) throws Exception {
        return admin.listGroups().all().get().stream()
            .filter(each -> each.groupId().equals(group))
            .map(GroupListing::toString)
            .map(text -> text.replace(group, "<group>"))
            .toList();
    }
}
