import java.io.FileReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import sun.misc.Signal;

/**
 * A consumer of Apache Kafka's own client from 2.0 on, of either group protocol. It reports in the
 * words of gateway/demo/reports.py: one JSON object per line, times in seconds of CLOCK_MONOTONIC.
 */
public final class JavaConsumer {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long COMMIT_INTERVAL_NS = 1_000_000_000L;
    private static final long CLOSE_LIMIT_MS = 15_000;
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "RangeAssignor",
        "roundrobin", "RoundRobinAssignor",
        "sticky", "StickyAssignor",
        "cooperative-sticky", "CooperativeStickyAssignor");
    private static final String WEIGHTED = "weights=";

    private static volatile boolean isAsked = false;
    private static volatile boolean isStuck = false;

    private final KafkaConsumer<String, String> consumer;
    private final Map<TopicPartition, OffsetAndMetadata> uncommitted = new HashMap<>();

    private JavaConsumer(KafkaConsumer<String, String> consumer) {
        this.consumer = consumer;
    }

    public static void main(String[] arguments)
            throws ReflectiveOperationException, InterruptedException {
        Map<String, String> wanted = new HashMap<>();
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            wanted.put(pair[0], pair.length == 2 ? pair[1] : "");
        }
        Thread listener = new Thread(JavaConsumer::waitForEndOfStdin);
        listener.setDaemon(true);
        listener.start();
        Signal.handle(new Signal("USR2"), signal -> isStuck = true);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(configuration(wanted))) {
            new JavaConsumer(consumer).consume(wanted.get("--topic"));
        }
        say("closed", "");
    }

    private void consume(String topic) throws ReflectiveOperationException, InterruptedException {
        subscribe(topic);
        long committedNs = System.nanoTime();
        while (!isAsked) {
            while (isStuck) { // other threads of the client go on
                Thread.sleep(POLL.toMillis());
            }
            for (ConsumerRecord<String, String> each : consumer.poll(POLL)) {
                long number = Long.parseLong(each.value());
                say("consumed", "\"partition\":%d,\"runs\":[[%d,%d,1]]"
                    .formatted(each.partition(), number, number + 1));
                TopicPartition partition = new TopicPartition(each.topic(), each.partition());
                uncommitted.put(partition, new OffsetAndMetadata(each.offset() + 1));
            }
            if (System.nanoTime() - committedNs >= COMMIT_INTERVAL_NS) {
                committedNs = System.nanoTime();
                if (!uncommitted.isEmpty()) {
                    consumer.commitAsync(new HashMap<>(uncommitted), this::onCommit);
                }
            }
        }
        commit(uncommitted.keySet()); // clients before 2.4 close without a callback
    }

    /**
     * A topic that begins with ^ is a regular expression, as librdkafka has it; clients from 4.0 on
     * leave it to the coordinator.
     */
    private void subscribe(String topic) throws ReflectiveOperationException {
        ConsumerRebalanceListener reporter = new Reporter();
        if (!topic.startsWith("^")) {
            consumer.subscribe(List.of(topic), reporter);
            return;
        }
        Class<?> pattern = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
        KafkaConsumer.class.getMethod("subscribe", pattern, ConsumerRebalanceListener.class)
            .invoke(consumer, pattern.getConstructor(String.class).newInstance(topic), reporter);
    }

    private void commit(Collection<TopicPartition> partitions) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>(uncommitted);
        offsets.keySet().retainAll(partitions);
        if (offsets.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(offsets);
            onCommit(offsets, null);
        } catch (KafkaException refusal) {
            onCommit(offsets, refusal);
        }
    }

    private void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets, Exception refusal) {
        if (refusal != null) {
            String error = String.valueOf(refusal.getMessage()).replaceAll("[\"\\\\\\s]", " ");
            say("troubled", "\"doing\":\"commit\",\"error\":\"%s\"".formatted(error));
            return;
        }
        offsets.forEach(uncommitted::remove); // not what was consumed since the commit was sent
        say("committed", "\"offsets\":[%s]".formatted(offsets.entrySet().stream()
            .map(each -> "[%d,%d]".formatted(each.getKey().partition(), each.getValue().offset()))
            .collect(Collectors.joining(","))));
    }

    private static Properties configuration(Map<String, String> wanted) {
        Properties config = new Properties();
        config.put("bootstrap.servers", wanted.get("--bootstrap"));
        config.put("group.id", wanted.get("--group"));
        config.put("client.id", wanted.get("--client-id"));
        config.put("group.protocol", wanted.get("--protocol"));
        if (wanted.containsKey("--static")) {
            config.put("group.instance.id", wanted.get("--client-id"));
        }
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("fetch.max.wait.ms", "250");
        config.put("key.deserializer", StringDeserializer.class);
        config.put("value.deserializer", StringDeserializer.class);
        if (wanted.get("--protocol").equals("classic")) {
            config.put("partition.assignment.strategy", assignors(wanted.get("--assignor")));
            config.put("weight", wanted.get("--assignor").replace(WEIGHTED, ""));
            config.put("session.timeout.ms", wanted.getOrDefault("--session-timeout-ms", "6000"));
            config.put("heartbeat.interval.ms", "500");
        }
        if (wanted.containsKey("--security")) {
            try (FileReader file = new FileReader(wanted.get("--security"))) {
                config.load(file);
            } catch (IOException unreadable) {
                throw new UncheckedIOException(unreadable);
            }
        }
        return config;
    }

    private static List<String> assignors(String names) {
        List<String> classes = new ArrayList<>();
        for (String name : names.split(",")) {
            classes.add(name.startsWith(WEIGHTED)
                ? "WeightedAssignor" // not for clients before 2.4
                : "org.apache.kafka.clients.consumer." + ASSIGNORS.get(name));
        }
        return classes;
    }

    /** The end of stdin is also how it learns that its parent died; then it may not hang. */
    private static void waitForEndOfStdin() {
        try {
            while (System.in.read() >= 0) { }
            isAsked = true;
            Thread.sleep(CLOSE_LIMIT_MS);
        } catch (IOException | InterruptedException ignored) {
            isAsked = true;
        }
        Runtime.getRuntime().halt(1);
    }

    private static synchronized void say(String kind, String fields) {
        double seconds = System.nanoTime() / 1e9;
        String more = fields.isEmpty() ? "" : "," + fields;
        System.out.printf("{\"kind\":\"%s\",\"at_s\":%.6f%s}%n", kind, seconds, more);
        System.out.flush();
    }

    /** Commits before partitions go, and reports what the client owns. */
    private final class Reporter implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> added) {
            report("assigned", added);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> removed) {
            commit(removed);
            uncommitted.keySet().removeAll(removed);
            report("revoked", removed);
        }

        // Not an override: before 2.4 there was no such callback.
        public void onPartitionsLost(Collection<TopicPartition> removed) {
            uncommitted.keySet().removeAll(removed);
            report("lost", removed);
        }

        private void report(String kind, Collection<TopicPartition> partitions) {
            String numbers = partitions.stream()
                .map(each -> Integer.toString(each.partition()))
                .collect(Collectors.joining(","));
            say(kind, "\"partitions\":[%s]".formatted(numbers));
        }
    }
}
