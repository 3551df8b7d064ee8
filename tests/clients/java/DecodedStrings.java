// Decodes strings as Apache Kafka does. Reads and writes a byte with a length, and UTF-8 of that length.

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

import org.apache.kafka.common.protocol.ByteBufferAccessor;

public class DecodedStrings {
    public static void main(String[] arguments) throws Exception {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
        for (int size = in.read(); size >= 0; size = in.read()) {
            byte[] bytes = new byte[size];
            in.readFully(bytes);
            String text = new ByteBufferAccessor(ByteBuffer.wrap(bytes)).readString(size);
            byte[] encoded = text.getBytes(StandardCharsets.UTF_8);
            out.writeByte(encoded.length);
            out.write(encoded);
        }
        out.flush();
    }
}
