// One producer or one consumer of Apache Kafka's Java client, driven through its standard streams.
//
// A frame is: length of the rest (int32), kind (byte), contents. All numbers are little endian. Frames in:
//   O  open: mode (byte p|c), then strings: start (earliest|latest), the codes ("17,21") after which a send certainly is
//      not in the log (workloads/clients/fates.py), number of properties, name, value, name, value ..., topics
//   A  connect: strings topic, partition, topic, partition ... that a consumer reads; none: subscribe in its group.id
//   S  send: written_ns (int64), count (int32), per record: seq (int64), topic number (int32), key length (int32, -1 none),
//      key, value length (int32), value
//   C  close: timeout in ms (int32); the end of the input means the same with 0
// Frames out:
//   V  valid: the client can be made with these properties         K  connected: strings name, value ... in force
//   E  error: strings kind (property|failure|unknown), name, text; for unknown: the names that there are
//   D  done sends: rows of 48 bytes: seq, sent_ns, acked_ns, offset, append_ms (int64), partition (int32), error,
//      status (int16; 0 acked, 1 failed, 2 unknown)
//   R  polled: polled_ns (int64), count (int32), per record: topic number, partition (int32), offset, timestamp (int64),
//      value length (int32), value
//   M  metrics: strings name, value ...                            F  finished: nothing comes after it
//
// Times are System.nanoTime(), which on Linux is CLOCK_MONOTONIC, the clock of the load generator on the same host.
// Three threads: the input is read here, sends (or polls) happen in a second, outcomes are written by a third, so that a
// producer that waits for buffer space does not keep frames from being read, and no outcome waits for a send.

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileInputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class LoadClient {
    private static final int FRAMES_WAITING_MAX = 64;
    private static final int FRAME_BYTES_MAX = 128 << 20;
    private static final int OUTCOME_BYTES = 48;
    private static final int OUTCOMES_PER_FRAME_MAX = 4096;
    private static final long METRICS_EVERY_NS = 1_000_000_000L;
    private static final int POLL_MS = 50;
    private static final String[] METRICS = {
        "batch-size-avg", "buffer-available-bytes", "bufferpool-wait-ratio", "compression-rate-avg", "record-error-total",
        "record-queue-time-avg", "record-queue-time-max", "record-retry-total", "record-send-total",
        "records-per-request-avg", "request-latency-avg", "request-latency-max", "request-total", "requests-in-flight",
        "records-consumed-total", "fetch-latency-avg", "records-lag-max", "fetch-total", "bytes-consumed-total"
    };

    private final OutputStream out = new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16);
    private final DataInputStream in =
        new DataInputStream(new BufferedInputStream(new FileInputStream(FileDescriptor.in), 1 << 16));
    private final BlockingQueue<ByteBuffer> frames = new ArrayBlockingQueue<>(FRAMES_WAITING_MAX);
    private volatile boolean closing;
    private volatile long closeTimeoutMs;
    // Outcomes wait here for the writer; bounded by the sends in flight that the other side allows.
    private final Object outcomesLock = new Object();
    private ByteBuffer outcomes = newBuffer(OUTCOMES_PER_FRAME_MAX * OUTCOME_BYTES);
    private final Set<Integer> failedCodes = new HashSet<>(); // complete before the threads start
    private final AtomicLong transitMaxNs = new AtomicLong();

    public static void main(String[] arguments) throws Exception {
        new LoadClient().run();
        System.exit(0);
    }

    private void run() throws Exception {
        ByteBuffer open = readFrame();
        if (open == null || open.get() != 'O') {
            return;
        }
        boolean isProducer = open.get() == 'p';
        List<String> words = strings(open);
        boolean fromStart = words.get(0).equals("earliest");
        for (String code : words.get(1).split(",")) {
            failedCodes.add(Integer.parseInt(code));
        }
        int end = 3 + 2 * Integer.parseInt(words.get(2));
        Map<String, Object> properties = new HashMap<>();
        for (int i = 3; i < end; i += 2) {
            properties.put(words.get(i), words.get(i + 1));
        }
        List<String> topics = words.subList(end, words.size());
        try {
            if (!checkNames(properties, isProducer)) {
                return;
            }
            if (isProducer) {
                produce(properties, topics);
            } else {
                consume(properties, topics, fromStart);
            }
        } catch (Exception error) {
            Throwable cause = error.getCause() instanceof ConfigException ? error.getCause() : error;
            String kind = cause instanceof ConfigException ? "property" : "failure";
            writeError(kind, propertyIn(properties, String.valueOf(cause.getMessage())), String.valueOf(cause.getMessage()));
        }
    }

    // Kafka only logs a warning about a property that it does not know.
    private boolean checkNames(Map<String, Object> properties, boolean isProducer) throws IOException {
        Set<String> known = isProducer ? ProducerConfig.configNames() : ConsumerConfig.configNames();
        for (String name : properties.keySet()) {
            if (!known.contains(name)) {
                List<String> words = new ArrayList<>(List.of("unknown", name));
                words.addAll(known);
                writeFrame('E', bytesOf(words));
                return false;
            }
        }
        return true;
    }

    private static String propertyIn(Map<String, Object> properties, String message) {
        String found = "";
        for (String name : properties.keySet()) {
            if (message.contains(name) && name.length() > found.length()) {
                found = name;
            }
        }
        return found;
    }

    // ---- producer ----------------------------------------------------------------------------------------------------

    private void produce(Map<String, Object> config, List<String> topics) throws Exception {
        boolean acksZero = "0".equals(config.get("acks"));
        config.put("key.serializer", ByteArraySerializer.class.getName());
        config.put("value.serializer", ByteArraySerializer.class.getName());
        Map<String, ?> inForce = new ProducerConfig(config).values();
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config);
        writeFrame('V', new byte[0]);
        if (readFrame() == null) {
            return;
        }
        for (String topic : topics) {
            producer.partitionsFor(topic);
        }
        writeFrame('K', bytesOf(settings(inForce)));
        Thread sender = new Thread(() -> sendAll(producer, topics, acksZero), "send");
        sendThread = sender;
        sender.setDaemon(true);
        sender.start();
        Thread writer = new Thread(() -> writeOutcomes(producer.metrics()), "outcomes");
        writer.setDaemon(true);
        writer.start();
        readUntilClosed();
        sender.join(Math.max(1, closeTimeoutMs));
        producer.close(Duration.ofMillis(closeTimeoutMs));
        synchronized (outcomesLock) {
            finished = true;
            outcomesLock.notifyAll();
        }
        writer.join(5_000);
        writeMetrics(producer.metrics());
        writeFrame('F', new byte[0]);
    }

    private boolean finished; // under outcomesLock
    private volatile Thread sendThread;

    private void sendAll(KafkaProducer<byte[], byte[]> producer, List<String> topics, boolean acksZero) {
        try {
            while (true) {
                ByteBuffer frame = frames.poll(20, TimeUnit.MILLISECONDS);
                if (frame == null) {
                    if (closing) {
                        return;
                    }
                    continue;
                }
                int count = frame.getInt();
                for (int i = 0; i < count; i++) {
                    long seq = frame.getLong();
                    String topic = topics.get(frame.getInt());
                    byte[] key = bytes(frame);
                    byte[] value = bytes(frame);
                    long sentNs = System.nanoTime();
                    try {
                        producer.send(new ProducerRecord<>(topic, key, value), (metadata, error) ->
                            done(seq, sentNs, metadata, error, acksZero));
                    } catch (Exception error) {
                        // Refused before it was queued: it certainly was not appended.
                        outcome(seq, sentNs, -1, -1, -1, codeOf(error), 1);
                    }
                }
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private void done(long seq, long sentNs, RecordMetadata metadata, Exception error, boolean acksZero) {
        if (error == null && acksZero) {
            outcome(seq, sentNs, metadata.partition(), -1, -1, 0, 2);
        } else if (error == null) {
            outcome(seq, sentNs, metadata.partition(), metadata.offset(), metadata.timestamp(), 0, 0);
        } else if (Thread.currentThread() == sendThread) {
            // Told within send(): no space for max.block.ms, or no such topic. It was never queued.
            outcome(seq, sentNs, -1, -1, -1, codeOf(error), 1);
        } else {
            int code = codeOf(error);
            outcome(seq, sentNs, -1, -1, -1, code, failedCodes.contains(code) ? 1 : 2);
        }
    }

    private static int codeOf(Exception error) {
        return error instanceof ApiException ? Errors.forException(error).code() : -1;
    }

    private void outcome(long seq, long sentNs, int partition, long offset, long appendMs, int error, int status) {
        long ackedNs = System.nanoTime();
        synchronized (outcomesLock) {
            if (outcomes.remaining() < OUTCOME_BYTES) {
                ByteBuffer larger = newBuffer(outcomes.capacity() * 2);
                outcomes.flip();
                outcomes = larger.put(outcomes);
            }
            outcomes.putLong(seq).putLong(sentNs).putLong(ackedNs).putLong(offset).putLong(appendMs);
            outcomes.putInt(partition).putShort((short) error).putShort((short) status);
            outcomesLock.notifyAll();
        }
    }

    private void writeOutcomes(Map<MetricName, ? extends Metric> metrics) {
        long nextMetricsNs = System.nanoTime();
        ByteBuffer spare = newBuffer(OUTCOMES_PER_FRAME_MAX * OUTCOME_BYTES);
        try {
            while (true) {
                ByteBuffer full;
                synchronized (outcomesLock) {
                    if (outcomes.position() == 0 && !finished) {
                        outcomesLock.wait(100);
                    }
                    if (outcomes.position() == 0 && finished) {
                        return;
                    }
                    full = outcomes;
                    outcomes = spare;
                }
                full.flip();
                if (full.hasRemaining()) {
                    byte[] rows = new byte[full.remaining()];
                    full.get(rows);
                    writeFrame('D', rows);
                }
                full.clear();
                spare = full;
                if (System.nanoTime() >= nextMetricsNs) {
                    nextMetricsNs = System.nanoTime() + METRICS_EVERY_NS;
                    writeMetrics(metrics);
                }
                Thread.sleep(1); // gathers what comes within a millisecond; its time is in the row already
            }
        } catch (IOException error) {
            System.exit(1); // nobody listens any more
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    // ---- consumer ----------------------------------------------------------------------------------------------------

    private void consume(Map<String, Object> config, List<String> topics, boolean fromStart) throws Exception {
        config.put("key.deserializer", ByteArrayDeserializer.class.getName());
        config.put("value.deserializer", ByteArrayDeserializer.class.getName());
        Map<String, ?> inForce = new ConsumerConfig(config).values();
        Map<String, Integer> topicNumbers = new HashMap<>();
        for (String topic : topics) {
            topicNumbers.put(topic, topicNumbers.size());
        }
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            writeFrame('V', new byte[0]);
            ByteBuffer connect = readFrame();
            if (connect == null || connect.get() != 'A') {
                return;
            }
            List<String> words = strings(connect);
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
            writeFrame('K', bytesOf(settings(inForce)));
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
                    writeRecords(records, topicNumbers, System.nanoTime());
                }
            }
        }
        writeFrame('F', new byte[0]);
    }

    private void writeRecords(ConsumerRecords<byte[], byte[]> records, Map<String, Integer> topicNumbers, long polledNs) throws IOException {
        int size = 12;
        for (ConsumerRecord<byte[], byte[]> record : records) {
            size += 28 + (record.value() == null ? 0 : record.value().length);
        }
        ByteBuffer frame = newBuffer(size).putLong(polledNs).putInt(records.count());
        for (ConsumerRecord<byte[], byte[]> record : records) {
            byte[] value = record.value() == null ? new byte[0] : record.value();
            frame.putInt(topicNumbers.get(record.topic())).putInt(record.partition()).putLong(record.offset());
            frame.putLong(record.timestamp()).putInt(value.length).put(value);
        }
        writeFrame('R', frame.array());
    }

    // ---- streams -----------------------------------------------------------------------------------------------------

    private void readUntilClosed() throws IOException {
        while (true) {
            ByteBuffer frame = readFrame();
            if (frame == null) {
                break;
            }
            byte kind = frame.get();
            if (kind == 'C') {
                closeTimeoutMs = frame.getInt();
                break;
            }
            if (kind == 'S') {
                transitMaxNs.accumulateAndGet(System.nanoTime() - frame.getLong(), Math::max);
                try {
                    frames.put(frame);
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                    break;
                }
            }
        }
        closing = true;
    }

    private ByteBuffer readFrame() throws IOException {
        try {
            int length = Integer.reverseBytes(in.readInt());
            if (length < 1 || length > FRAME_BYTES_MAX) {
                throw new IOException("a frame of " + length + " bytes");
            }
            byte[] contents = new byte[length];
            in.readFully(contents);
            return ByteBuffer.wrap(contents).order(ByteOrder.LITTLE_ENDIAN);
        } catch (EOFException end) {
            return null;
        }
    }

    private void writeFrame(char kind, byte[] contents) throws IOException {
        ByteBuffer head = newBuffer(5).putInt(contents.length + 1).put((byte) kind);
        synchronized (out) {
            out.write(head.array());
            out.write(contents);
            out.flush();
        }
    }

    private void writeError(String kind, String name, String text) throws IOException {
        writeFrame('E', bytesOf(List.of(kind, name, text)));
    }

    private void writeMetrics(Map<MetricName, ? extends Metric> metrics) throws IOException {
        Map<String, String> chosen = new TreeMap<>();
        for (Map.Entry<MetricName, ? extends Metric> entry : metrics.entrySet()) {
            MetricName name = entry.getKey();
            if (!name.group().equals("producer-metrics") && !name.group().equals("consumer-fetch-manager-metrics")) {
                continue;
            }
            for (String wanted : METRICS) {
                if (wanted.equals(name.name()) && name.tags().size() == 1) {
                    chosen.put(wanted, String.valueOf(entry.getValue().metricValue()));
                }
            }
        }
        chosen.put("handover-us-max", String.valueOf(transitMaxNs.get() / 1000.0));
        List<String> words = new ArrayList<>();
        chosen.forEach((name, value) -> {
            words.add(name);
            words.add(value);
        });
        writeFrame('M', bytesOf(words));
    }

    private static List<String> settings(Map<String, ?> values) {
        List<String> words = new ArrayList<>();
        for (Map.Entry<String, ?> entry : new TreeMap<>(values).entrySet()) {
            words.add(entry.getKey());
            Object value = entry.getValue();
            words.add(value instanceof Class ? ((Class<?>) value).getName() : String.valueOf(value));
        }
        return words;
    }

    private static List<String> strings(ByteBuffer buffer) {
        List<String> words = new ArrayList<>();
        while (buffer.hasRemaining()) {
            words.add(new String(bytes(buffer), StandardCharsets.UTF_8));
        }
        return words;
    }

    private static byte[] bytesOf(List<String> words) {
        List<byte[]> parts = new ArrayList<>();
        int size = 0;
        for (String word : words) {
            byte[] part = word.getBytes(StandardCharsets.UTF_8);
            parts.add(part);
            size += 4 + part.length;
        }
        ByteBuffer buffer = newBuffer(size);
        for (byte[] part : parts) {
            buffer.putInt(part.length).put(part);
        }
        return buffer.array();
    }

    private static byte[] bytes(ByteBuffer buffer) {
        int length = buffer.getInt();
        if (length < 0) {
            return null;
        }
        byte[] found = new byte[length];
        buffer.get(found);
        return found;
    }

    private static ByteBuffer newBuffer(int size) {
        return ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
    }
}
