import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The producer of mode `load`. Three threads: the input is read in the one that runs, sends happen in a second, outcomes
 * are written by a third, so that a producer that waits for buffer space does not keep frames from being read, and no
 * outcome waits for a send.
 */
final class LoadProducer {
    private static final int FRAMES_WAITING_MAX = 64;
    private static final int OUTCOME_BYTES = 48;
    private static final int OUTCOMES_PER_FRAME_MAX = 4096;
    private static final long METRICS_EVERY_NS = 1_000_000_000L;
    private static final int BEGIN = 1;
    private static final int COMMIT = 2;
    private static final int DONE = 0;
    private static final int UNKNOWN = 2;
    private static final int ABORTED = 3;
    private static final long CONNECT_MS = 55_000; // less than the other side waits
    private static final Set<String> METRICS = Set.of(
        "batch-size-avg", "buffer-available-bytes", "bufferpool-wait-ratio", "compression-rate-avg", "record-error-total",
        "record-queue-time-avg", "record-queue-time-max", "record-retry-total", "record-send-total",
        "records-per-request-avg", "request-latency-avg", "request-latency-max", "request-total", "requests-in-flight"
    );

    private final Frames frames;
    private final List<String> topics;
    private final Set<Integer> failedCodes;
    private final BlockingQueue<ByteBuffer> waiting = new ArrayBlockingQueue<>(FRAMES_WAITING_MAX);
    private volatile boolean closing;
    private volatile long closeTimeoutMs;
    // Outcomes wait here for the writer; bounded by the sends in flight that the other side allows.
    private final Object outcomesLock = new Object();
    private ByteBuffer outcomes = Frames.newBuffer(OUTCOMES_PER_FRAME_MAX * OUTCOME_BYTES);
    private boolean finished; // under outcomesLock
    private volatile Thread sendThread;
    private final AtomicLong transitMaxNs = new AtomicLong();

    LoadProducer(Frames frames, List<String> topics, Set<Integer> failedCodes) {
        this.frames = frames;
        this.topics = topics;
        this.failedCodes = failedCodes;
    }

    void run(Map<String, Object> config) throws Exception {
        boolean acksZero = "0".equals(config.get("acks"));
        config.put("key.serializer", ByteArraySerializer.class.getName());
        config.put("value.serializer", ByteArraySerializer.class.getName());
        Map<String, ?> inForce = new ProducerConfig(config).values();
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config);
        frames.write('V', new byte[0]);
        if (frames.read() == null) {
            return;
        }
        for (String topic : topics) {
            patiently(() -> producer.partitionsFor(topic), CONNECT_MS);
        }
        if (config.get("transactional.id") != null) {
            patiently(producer::initTransactions, CONNECT_MS);
        }
        frames.writeWords('K', Load.settings(inForce));
        Thread sender = new Thread(() -> sendAll(producer, acksZero), "send");
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
        frames.write('F', new byte[0]);
    }

    private void sendAll(KafkaProducer<byte[], byte[]> producer, boolean acksZero) {
        try {
            while (true) {
                ByteBuffer frame = waiting.poll(20, TimeUnit.MILLISECONDS);
                if (frame == null) {
                    if (closing) {
                        return;
                    }
                    continue;
                }
                int count = frame.getInt();
                if (count < 0) {
                    step(producer, frame.getLong(), frame.getInt(), frame.getInt());
                    continue;
                }
                for (int i = 0; i < count; i++) {
                    long seq = frame.getLong();
                    String topic = topics.get(frame.getInt());
                    byte[] key = Frames.bytes(frame);
                    byte[] value = Frames.bytes(frame);
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

    /** One step of a transaction. What it waits for has called `done` for all records before it returns. */
    private void step(KafkaProducer<byte[], byte[]> producer, long number, int step, long timeoutMs) {
        int status = DONE;
        int code = 0;
        try {
            if (step == BEGIN) {
                producer.beginTransaction();
            } else if (step == COMMIT) {
                patiently(producer::commitTransaction, timeoutMs);
            } else {
                producer.flush();
                patiently(producer::abortTransaction, timeoutMs);
            }
        } catch (KafkaException | IllegalStateException error) {
            code = codeOf(error);
            status = step == COMMIT && tryAbort(producer, error, timeoutMs) ? ABORTED : UNKNOWN;
        }
        outcome(-number - 1, -1, -1, -1, -1, code, status);
    }

    /** False: nobody knows how the transaction ended, and this producer is of no more use. As in Copier. */
    private static boolean tryAbort(KafkaProducer<byte[], byte[]> producer, RuntimeException cause, long timeoutMs) {
        boolean isFatal = cause instanceof ProducerFencedException || cause instanceof OutOfOrderSequenceException
                || cause instanceof AuthorizationException || cause instanceof UnsupportedVersionException
                || cause instanceof InvalidProducerEpochException || cause instanceof ApplicationRecoverableException
                || cause instanceof TimeoutException || cause instanceof IllegalStateException;
        if (isFatal) {
            return false;
        }
        try {
            patiently(producer::abortTransaction, timeoutMs);
            return true;
        } catch (KafkaException | IllegalStateException error) {
            return false;
        }
    }

    /** A call that timed out may be made again, and only that one. */
    private static void patiently(Runnable call, long timeoutMs) {
        long deadlineNs = System.nanoTime() + timeoutMs * 1_000_000;
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException error) {
                if (System.nanoTime() > deadlineNs) {
                    throw error;
                }
            }
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
                ByteBuffer larger = Frames.newBuffer(outcomes.capacity() * 2);
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
        ByteBuffer spare = Frames.newBuffer(OUTCOMES_PER_FRAME_MAX * OUTCOME_BYTES);
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
                    frames.write('D', rows);
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

    private void writeMetrics(Map<MetricName, ? extends Metric> metrics) throws IOException {
        Map<String, String> chosen = new TreeMap<>();
        for (Map.Entry<MetricName, ? extends Metric> entry : metrics.entrySet()) {
            MetricName name = entry.getKey();
            boolean isOfAll = name.group().equals("producer-metrics") && name.tags().size() == 1;
            if (isOfAll && METRICS.contains(name.name())) {
                chosen.put(name.name(), String.valueOf(entry.getValue().metricValue()));
            }
        }
        chosen.put("handover-us-max", String.valueOf(transitMaxNs.get() / 1000.0));
        List<String> words = new ArrayList<>();
        chosen.forEach((name, value) -> {
            words.add(name);
            words.add(value);
        });
        frames.writeWords('M', words);
    }

    private void readUntilClosed() throws IOException {
        while (true) {
            ByteBuffer frame = frames.read();
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
                    waiting.put(frame);
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                    break;
                }
            }
        }
        closing = true;
    }
}
