import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Two share consumers read all records of a topic, and an admin client configures, describes and
 * deletes their group. Prints what does not depend on times, ids and addresses.
 */
public final class ShareGroupClient {
    private static final Duration POLL = Duration.ofMillis(200);

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0], topic = arguments[1], group = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        try (Admin admin = Admin.create(settings)) {
            ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
            ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
            AlterConfigOp set = new AlterConfigOp(earliest, AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
            consume(admin, settings, topic, group, count);
            String reset = admin.describeConfigs(List.of(resource)).all().get().get(resource)
                .get("share.auto.offset.reset").value();
            System.out.println("reset " + reset);
            System.out.println("offsets " + admin
                .listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec()))
                .partitionsToOffsetInfo(group).get().size());
            admin.deleteShareGroups(List.of(group)).all().get();
            System.out.println("left " + listing(admin, group));
        }
    }

    private static void consume(
            Admin admin, Properties settings, String topic, String group, int count)
            throws Exception {
        Properties of = new Properties();
        of.putAll(settings);
        of.put("group.id", group);
        of.put("key.deserializer", StringDeserializer.class.getName());
        of.put("value.deserializer", StringDeserializer.class.getName());
        TreeSet<Integer> values = new TreeSet<>();
        try (KafkaShareConsumer<String, String> one = new KafkaShareConsumer<>(of);
             KafkaShareConsumer<String, String> other = new KafkaShareConsumer<>(of)) {
            one.subscribe(List.of(topic));
            other.subscribe(List.of(topic));
            while (values.size() < count) {
                for (KafkaShareConsumer<String, String> consumer : List.of(one, other)) {
                    for (ConsumerRecord<String, String> each : consumer.poll(POLL)) {
                        values.add(Integer.parseInt(each.value()));
                    }
                }
            }
            System.out.println("acknowledged " + errors(List.of(one, other)));
            System.out.println("values " + values.first() + " to " + values.last());
            System.out.println("listed " + listing(admin, group));
            ShareGroupDescription described =
                admin.describeShareGroups(List.of(group)).all().get().get(group);
            System.out.println("state " + described.groupState()
                + ", members " + described.members().size());
        }
    }

    private static int errors(Collection<KafkaShareConsumer<String, String>> consumers) {
        return consumers.stream()
            .mapToInt(each -> (int) each.commitSync().values().stream()
                .filter(error -> error.isPresent()).count())
            .sum();
    }


    private static List<String> listing(Admin admin, String group) throws Exception {
        return admin.listGroups().all().get().stream()
            .filter(each -> each.groupId().equals(group))
            .map(GroupListing::toString)
            .map(text -> text.replace(group, "<group>"))
            .toList();
    }
}
