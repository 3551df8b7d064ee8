import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A job of Flink copies a topic exactly once: with checkpoints that commit transactions and
 * offsets. Prints what does not depend on times, ids and addresses.
 */
public final class FlinkProgram {
    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0], topic = arguments[1], group = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        String copy = group + "-copy";
        StreamExecutionEnvironment job =
            StreamExecutionEnvironment.createLocalEnvironment(2, new Configuration());
        job.enableCheckpointing(500);
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(servers)
            .setTopics(topic)
            .setGroupId(group)
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setBounded(OffsetsInitializer.latest())
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
            .setBootstrapServers(servers)
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(group)
            .setProperty("transaction.timeout.ms", "60000")
            .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                .setTopic(copy)
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .build();
        job.fromSource(source, WatermarkStrategy.noWatermarks(), "source").sinkTo(sink);
        job.execute();
        List<String> values = copied(servers, copy, count);
        System.out.println("copied " + values.size() + ", values " + new HashSet<>(values).size());
    }

    private static List<String> copied(String servers, String topic, int count) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", servers,
            "group.id", topic + "-reader",
            "key.deserializer", StringDeserializer.class.getName(),
            "value.deserializer", StringDeserializer.class.getName(),
            "isolation.level", "read_committed",
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
