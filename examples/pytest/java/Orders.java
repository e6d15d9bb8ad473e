// The program under test: sends records until its standard input ends, and prints each value that was acknowledged.
// `java -cp "$KAFKA_JARS/*" Orders.java`, where KAFKA_JARS has kafka-clients and what it needs.
import java.io.IOException;
import java.io.OutputStream;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Orders {
    private static volatile boolean stopped;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, System.getenv("KAFKA_BOOTSTRAP_SERVERS"));
        settings.put(ProducerConfig.ACKS_CONFIG, "all");
        String topic = System.getenv("KAFKA_TOPIC");
        Thread watcher = new Thread(Orders::awaitEndOfInput);
        watcher.setDaemon(true);
        watcher.start();
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; !stopped; number++) {
                String value = Integer.toString(number);
                producer.send(new ProducerRecord<>(topic, value), (metadata, error) -> {
                    if (error == null) {
                        System.out.println(value);
                    } else {
                        System.err.println(error); // nobody was told that it is safe
                    }
                });
                Thread.sleep(2);
            }
            producer.flush();
        }
    }

    private static void awaitEndOfInput() {
        try {
            System.in.transferTo(OutputStream.nullOutputStream());
        } catch (IOException closed) {
            // the end as well
        }
        stopped = true;
    }
}
