import java.nio.file.Files;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * A Streams application moves from the classic protocol to its own and back. An instance that is
 * started too early is refused; one that is started once the group is empty goes on with the
 * counts. Prints what does not depend on times, ids and addresses.
 */
public final class StreamsMigration {
    private static final int PART = 30;

    private final String servers;
    private final String topic;
    private final String group;
    private final String result;
    private final Admin admin;
    private int written;

    private StreamsMigration(String servers, String topic, String group, Admin admin) {
        this.servers = servers;
        this.topic = topic;
        this.group = group;
        this.result = group + "-result";
        this.admin = admin;
    }

    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            new StreamsMigration(arguments[0], arguments[1], arguments[2], admin).play();
        }
    }

    private void play() throws Exception {
        admin.createTopics(List.of(new NewTopic(result, 3, (short) 1))).all().get();
        try (KafkaStreams classic = started("classic", new CompletableFuture<>())) {
            countPart("classic");
            CompletableFuture<Throwable> error = new CompletableFuture<>();
            try (KafkaStreams early = started("streams", error)) {
                System.out.println("too early: " + outcome(error));
            }
            countPart("classic after the refusal");
        }
        removeMembers();
        try (KafkaStreams streams = started("streams", new CompletableFuture<>())) {
            countPart("streams");
            CompletableFuture<Throwable> error = new CompletableFuture<>();
            try (KafkaStreams early = started("classic", error)) {
                System.out.println("back too early: " + outcome(error));
            }
            countPart("streams after the refusal");
        }
        while (!admin.describeStreamsGroups(List.of(group)).all().get().get(group).members()
            .isEmpty()) {
            Thread.sleep(100);
        }
        try (KafkaStreams classic = started("classic", new CompletableFuture<>())) {
            countPart("classic again");
        }
        removeMembers();
        admin.deleteConsumerGroups(List.of(group)).all().get();
    }

    /** A classic application that is closed does not leave its group. */
    private void removeMembers() throws Exception {
        admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions())
            .all().get();
    }

    private KafkaStreams started(String protocol, CompletableFuture<Throwable> error)
            throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("application.id", group);
        settings.put("group.protocol", protocol);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("state.dir", Files.createTempDirectory("groupferry-streams").toString());
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        settings.put("consumer.auto.offset.reset", "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(topic)
            .groupByKey()
            .count(Materialized.as(Stores.inMemoryKeyValueStore("counts")))
            .toStream()
            .mapValues(number -> Long.toString(number))
            .to(result);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(problem -> {
            error.complete(problem);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        return streams;
    }

    private String outcome(CompletableFuture<Throwable> error)
            throws ExecutionException, InterruptedException {
        try {
            Throwable cause = error.get(30, TimeUnit.SECONDS);
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            return cause.getClass().getSimpleName() + ": "
                + String.valueOf(cause.getMessage()).replace(group, "<group>");
        } catch (TimeoutException nothing) {
            return "no error";
        }
    }

    /** Writes records, waits for their counts, and prints these and the type of the group. */
    private void countPart(String step) throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", servers),
                new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < PART; number++) {
                producer.send(new ProducerRecord<>(topic, "key " + number % 10, "")).get();
            }
        }
        written += PART;
        String type = admin.listGroups().all().get().stream()
            .filter(each -> each.groupId().equals(group))
            .map(GroupListing::type).map(each -> each.orElseThrow().toString())
            .findFirst().orElse("none");
        System.out.println(step + ": counted " + counted() + ", type " + type);
    }

    /** The sum of the latest counts, once it is that of the records. */
    private long counted() {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", servers,
            "isolation.level", "read_committed",
            "key.deserializer", StringDeserializer.class.getName(),
            "value.deserializer", StringDeserializer.class.getName());
        Map<String, Long> counts = new TreeMap<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            List<TopicPartition> partitions = Stream.of(0, 1, 2)
                .map(number -> new TopicPartition(result, number)).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (counts.values().stream().mapToLong(Long::longValue).sum() < written) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(200))) {
                    counts.put(each.key(), Long.parseLong(each.value()));
                }
            }
        }
        return counts.values().stream().mapToLong(Long::longValue).sum();
    }
}
