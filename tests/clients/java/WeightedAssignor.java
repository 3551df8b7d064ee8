import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.TopicPartition;

/**
 * A custom assignor of classic groups: each member states its weight in its user data, as an int32,
 * and gets that share of the partitions. reference_consumer.py does the same in the new protocol.
 */
public final class WeightedAssignor implements ConsumerPartitionAssignor, Configurable {
    private int weight;

    @Override
    public void configure(Map<String, ?> configs) {
        weight = Integer.parseInt((String) configs.get("weight"));
    }

    @Override
    public String name() {
        return "weights";
    }

    @Override
    public ByteBuffer subscriptionUserData(Set<String> topics) {
        return ByteBuffer.allocate(Integer.BYTES).putInt(0, weight);
    }

    @Override
    public GroupAssignment assign(Cluster metadata, GroupSubscription members) {
        Map<String, Integer> weights = new TreeMap<>();
        List<String> topics = List.of();
        for (Map.Entry<String, Subscription> each : members.groupSubscription().entrySet()) {
            ByteBuffer data = each.getValue().userData();
            weights.put(each.getKey(), data.getInt(data.position()));
            topics = each.getValue().topics(); // all members have the same
        }
        List<TopicPartition> partitions = new ArrayList<>();
        for (String topic : topics) {
            for (int number = 0; number < metadata.partitionCountForTopic(topic); number++) {
                partitions.add(new TopicPartition(topic, number));
            }
        }
        Map<String, Assignment> shares = new HashMap<>();
        int begin = 0;
        for (Map.Entry<String, Integer> quota : quotas(weights, partitions.size()).entrySet()) {
            int end = begin + quota.getValue();
            shares.put(quota.getKey(), new Assignment(partitions.subList(begin, end)));
            begin = end;
        }
        return new GroupAssignment(shares);
    }

    /** Rounded down, and one more for those with the largest remainders. */
    private static Map<String, Integer> quotas(Map<String, Integer> weights, int count) {
        int total = weights.values().stream().mapToInt(Integer::intValue).sum();
        Map<String, Integer> quotas = new TreeMap<>();
        weights.forEach((member, its) -> quotas.put(member, count * its / total));
        int left = count - quotas.values().stream().mapToInt(Integer::intValue).sum();
        weights.keySet().stream()
            .sorted(Comparator.comparing(member -> -(count * weights.get(member) % total)))
            .limit(left)
            .forEach(member -> quotas.merge(member, 1, Integer::sum));
        return quotas;
    }
}
