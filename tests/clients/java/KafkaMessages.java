// Reads messages with Apache Kafka's own classes, "KEY VERSION request|response HEX" per line, and
// writes them again, in hex.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;

import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class KafkaMessages {
    public static void main(String[] arguments) throws Exception {
        HexFormat hex = HexFormat.of();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            ApiMessageType type = ApiMessageType.fromApiKey(Short.parseShort(words[0]));
            short version = Short.parseShort(words[1]);
            ApiMessage message = words[2].equals("request") ? type.newRequest() : type.newResponse();
            message.read(new ByteBufferAccessor(ByteBuffer.wrap(hex.parseHex(words[3]))), version);
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer written = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(written), cache, version);
            System.out.println(hex.formatHex(written.array()));
        }
    }
}
