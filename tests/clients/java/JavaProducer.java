// A producer of Apache Kafka's own client, as librdkafka_producer.py: BOOTSTRAP PREFIX CODEC...

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class JavaProducer {
    private static final byte[] TEXT = text(5_000);
    private static final byte[] LONG_TEXT = text(110_000);

    public static void main(String[] arguments) throws Exception {
        for (String codec : List.of(arguments).subList(2, arguments.length)) {
            String topic = arguments[1] + "-" + codec;
            Map<String, Object> settings = Map.of(
                "bootstrap.servers", arguments[0],
                "compression.type", codec,
                "buffer.memory", 64_000_000L,
                "max.request.size", 4_000_000);
            try (KafkaProducer<byte[], byte[]> plain = producer(settings)) {
                for (byte[] text : codec.equals("none") ? List.of(TEXT) : List.of(TEXT, LONG_TEXT)) {
                    plain.send(new ProducerRecord<>(topic, 0, null, text)).get();
                }
            }
            Map<String, Object> inTransactions = new java.util.HashMap<>(settings);
            inTransactions.put("transactional.id", topic);
            try (KafkaProducer<byte[], byte[]> transactional = producer(inTransactions)) {
                transactional.initTransactions();
                transactional.beginTransaction();
                transactional.send(new ProducerRecord<>(topic, 0, null, TEXT)).get();
                transactional.commitTransaction();
            }
            if (codec.equals("none")) {
                inTransactions.put("transactional.id", topic + "-fenced");
                checkFencing(inTransactions, topic);
            }
        }
    }

    /** Fails unless the first of two producers with one transactional id is fenced. */
    private static void checkFencing(Map<String, Object> settings, String topic) throws Exception {
        try (KafkaProducer<byte[], byte[]> first = producer(settings);
             KafkaProducer<byte[], byte[]> second = producer(settings)) {
            first.initTransactions();
            first.beginTransaction();
            first.send(new ProducerRecord<>(topic, 1, null, TEXT)).get();
            second.initTransactions();
            try {
                first.commitTransaction();
            } catch (ApiException refused) {
                // By its name, because clients before 2.7 lack the second.
                String name = refused.getClass().getSimpleName();
                if (List.of("ProducerFencedException", "InvalidProducerEpochException").contains(name)) {
                    return;
                }
                throw refused;
            }
            throw new AssertionError("the first producer was not fenced");
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(Map<String, Object> settings) {
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static byte[] text(int repetitions) {
        return "compressible text ".repeat(repetitions).getBytes(StandardCharsets.US_ASCII);
    }
}
