import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The consumer of mode `load`. Polls and writes in the thread that runs; another waits for the frame that ends it. */
final class LoadConsumer {
    private static final int POLL_MS = 50;

    private final Frames frames;
    private final List<String> topics;
    private final boolean fromStart;
    private final Map<String, Integer> topicNumbers = new HashMap<>();
    private volatile boolean closing;

    LoadConsumer(Frames frames, List<String> topics, boolean fromStart) {
        this.frames = frames;
        this.topics = topics;
        this.fromStart = fromStart;
        for (String topic : topics) {
            topicNumbers.put(topic, topicNumbers.size());
        }
    }

    void run(Map<String, Object> config) throws Exception {
        config.put("key.deserializer", ByteArrayDeserializer.class.getName());
        config.put("value.deserializer", ByteArrayDeserializer.class.getName());
        Map<String, ?> inForce = new ConsumerConfig(config).values();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            frames.write('V', new byte[0]);
            ByteBuffer connect = frames.read();
            if (connect == null || connect.get() != 'A') {
                return;
            }
            List<String> words = Frames.strings(connect);
            List<TopicPartition> assigned = new ArrayList<>();
            for (int i = 0; i < words.size(); i += 2) {
                assigned.add(new TopicPartition(words.get(i), Integer.parseInt(words.get(i + 1))));
            }
            for (String topic : topics) {
                consumer.partitionsFor(topic);
            }
            if (assigned.isEmpty()) {
                consumer.subscribe(topics);
            } else {
                consumer.assign(assigned);
                if (fromStart) {
                    consumer.seekToBeginning(assigned);
                } else {
                    consumer.seekToEnd(assigned);
                }
            }
            frames.writeWords('K', Load.settings(inForce));
            Thread reader = new Thread(() -> {
                try {
                    readUntilClosed();
                } catch (IOException error) {
                    closing = true;
                }
            }, "input");
            reader.setDaemon(true);
            reader.start();
            while (!closing) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(POLL_MS));
                if (!records.isEmpty()) {
                    writeRecords(records, System.nanoTime());
                }
            }
        }
        frames.write('F', new byte[0]);
    }

    private void writeRecords(ConsumerRecords<byte[], byte[]> records, long polledNs) throws IOException {
        int size = 12;
        for (ConsumerRecord<byte[], byte[]> record : records) {
            size += 28 + (record.value() == null ? 0 : record.value().length);
        }
        ByteBuffer frame = Frames.newBuffer(size).putLong(polledNs).putInt(records.count());
        for (ConsumerRecord<byte[], byte[]> record : records) {
            byte[] value = record.value() == null ? new byte[0] : record.value();
            frame.putInt(topicNumbers.get(record.topic())).putInt(record.partition()).putLong(record.offset());
            frame.putLong(record.timestamp()).putInt(value.length).put(value);
        }
        frames.write('R', frame.array());
    }

    private void readUntilClosed() throws IOException {
        ByteBuffer frame = frames.read();
        while (frame != null && frame.get() != 'C') {
            frame = frames.read();
        }
        closing = true;
    }
}
