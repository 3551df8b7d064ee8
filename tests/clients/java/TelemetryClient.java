import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringSerializer;

/** A producer whose metrics the broker has subscribed to; ends once TelemetryReporter has them. */
public final class TelemetryClient {
    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0], topic = arguments[1], name = arguments[2];
        Path pushes = Path.of(arguments[3]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("client.id", name);
        try (Admin admin = Admin.create(settings)) {
            ConfigResource subscription =
                new ConfigResource(ConfigResource.Type.CLIENT_METRICS, name);
            List<AlterConfigOp> set = List.of(
                set("metrics", "*"), set("interval.ms", "200"), set("match", "client_id=" + name));
            admin.incrementalAlterConfigs(Map.of(subscription, set)).all().get();
            while (admin.describeConfigs(List.of(subscription)).all().get()
                    .get(subscription).get("match").value().isEmpty()) {
                Thread.sleep(50);
            }
        }
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.send(new ProducerRecord<>(topic, "value")).get();
            awaitPush(pushes, producer.clientInstanceId(Duration.ofSeconds(30)).toString());
        }
        System.out.println("pushed");
    }

    private static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }

    private static void awaitPush(Path pushes, String id) throws Exception {
        while (!Files.exists(pushes) || !Files.readAllLines(pushes).contains(id)) {
            Thread.sleep(50);
        }
    }
}
