// Prints an empty request of every api in every version that brokers of this Kafka have, "KEY
// VERSION HEX" per line.

import java.nio.ByteBuffer;
import java.util.HexFormat;

import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class EveryRequest {
    public static void main(String[] arguments) {
        HexFormat hex = HexFormat.of();
        for (ApiMessageType type : ApiMessageType.values()) {
            if (!type.listeners().contains(ApiMessageType.ListenerType.BROKER)) {
                continue;
            }
            for (short v = type.lowestSupportedVersion(); v <= type.highestSupportedVersion(true); v++) {
                ApiMessage request = type.newRequest();
                ObjectSerializationCache cache = new ObjectSerializationCache();
                ByteBuffer written = ByteBuffer.allocate(request.size(cache, v));
                request.write(new ByteBufferAccessor(written), cache, v);
                System.out.println(type.apiKey() + " " + v + " " + hex.formatHex(written.array()));
            }
        }
    }
}
