// Reads records in hex, "KEY VALUE" per line, with Apache Kafka's own classes for __consumer_offsets.
// Writes one JSON object per line: what it read, and the bytes that it would write itself.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;

public class StateRecords {
    public static void main(String[] arguments) throws Exception {
        HexFormat hex = HexFormat.of();
        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            CoordinatorRecord record = serde.deserialize(
                ByteBuffer.wrap(hex.parseHex(words[0])), ByteBuffer.wrap(hex.parseHex(words[1])));
            ObjectNode found = JsonNodeFactory.instance.objectNode();
            found.put("type", record.key().apiKey());
            found.set("key", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(record.key()));
            found.set("value", CoordinatorRecordJsonConverters.writeRecordValueAsJson(
                record.value().message(), record.value().version()));
            found.put("key_bytes", hex.formatHex(serde.serializeKey(record)));
            found.put("value_bytes", hex.formatHex(serde.serializeValue(record)));
            System.out.println(found);
        }
    }
}
