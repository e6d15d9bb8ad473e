import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

/** Where kafka-clients 2.1 to 4.4 differ for this program. What a version lacks is found by its name. */
final class Versions {
    private Versions() {
    }

    static String ofLibrary() throws IOException {
        Properties found = new Properties();
        try (InputStream file = KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            found.load(file);
        }
        return found.getProperty("version");
    }

    /** Sharing.java is compiled from 4.1 on only: earlier share groups spoke a version that no later broker knows. */
    static boolean canShare() {
        try {
            Class.forName("Sharing");
            return ConsumerConfig.configNames().contains("share.acknowledgement.mode");
        } catch (ClassNotFoundException | LinkageError error) {
            return false;
        }
    }

    static Reading sharer(Map<String, Object> properties) throws Exception {
        try {
            return (Reading) Class.forName("Sharing").getDeclaredConstructor(Map.class).newInstance(properties);
        } catch (InvocationTargetException error) {
            throw causeOf(error);
        }
    }

    /** From 2.5 on (KIP-447) with the member's generation, before that with the group's name alone. */
    static Runnable offsetsSender(
        KafkaProducer<byte[], byte[]> producer, Map<TopicPartition, OffsetAndMetadata> positions, Reading reader
    ) throws Exception {
        if (!has(KafkaConsumer.class, "groupMetadata")) {
            Method old = KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, String.class);
            return () -> call(producer, old, positions, reader.groupId);
        }
        Object member = call(reader.consumer, KafkaConsumer.class.getMethod("groupMetadata"));
        Class<?> kind = Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
        Method method = KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, kind);
        return () -> call(producer, method, positions, member);
    }

    /** With a Duration from 2.2 on (KIP-367). */
    static void close(KafkaProducer<byte[], byte[]> producer, Duration time) throws Exception {
        if (has(KafkaProducer.class, "close", Duration.class)) {
            call(producer, KafkaProducer.class.getMethod("close", Duration.class), time);
        } else {
            Method method = KafkaProducer.class.getMethod("close", long.class, TimeUnit.class);
            call(producer, method, time.toMillis(), TimeUnit.MILLISECONDS);
        }
    }

    private static boolean has(Class<?> owner, String name, Class<?>... parameters) {
        try {
            owner.getMethod(name, parameters);
            return true;
        } catch (NoSuchMethodException error) {
            return false;
        }
    }

    private static Object call(Object owner, Method method, Object... arguments) {
        try {
            return method.invoke(owner, arguments);
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        } catch (InvocationTargetException error) {
            throw causeOf(error);
        }
    }

    /** Errors of the library are unchecked. */
    private static RuntimeException causeOf(InvocationTargetException error) {
        return error.getCause() instanceof RuntimeException cause ? cause : new IllegalStateException(error.getCause());
    }
}
