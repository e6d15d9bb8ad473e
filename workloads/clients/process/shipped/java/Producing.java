import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;

/**
 * One KafkaProducer: its records and their outcomes, and its transactions.
 *
 * Calls of the library that may wait (send() does, for metadata or space) run one after the other in a thread of their
 * own, so that a close is heard meanwhile.
 */
final class Producing {
    private static final long CLOSED_S = 2;
    private static final int WAITING_BYTES_MAX = 64 << 20; // of records that send() has not taken yet

    private final KafkaProducer<byte[], byte[]> producer;
    private final Set<Integer> failedCodes = new HashSet<>();
    private final boolean isAcked;
    private final ExecutorService calls = Executors.newSingleThreadExecutor();
    private final Semaphore room = new Semaphore(WAITING_BYTES_MAX);
    // Records without an outcome, with their sent_us. Who takes one out tells its outcome: an error of send() may be
    // followed by one of the batch.
    private final Map<Long, Long> open = new ConcurrentHashMap<>();
    private String lateCall = "";
    private Future<?> late;

    Producing(Map<String, Object> properties, JsonNode failedCodes, Duration time) throws Exception {
        failedCodes.forEach(code -> this.failedCodes.add(code.asInt()));
        isAcked = !"0".equals(properties.get("acks"));
        producer = new KafkaProducer<>(properties);
        if (properties.containsKey("transactional.id")) {
            within(time, "connect", producer::initTransactions);
        }
    }

    /** If too much waits, nothing is read meanwhile. `sizeBytes`: of the line. */
    void produce(JsonNode in, int sizeBytes) throws InterruptedException {
        in.get("records").forEach(each -> open.put(each.get("seq").asLong(), Out.nowUs()));
        int taken = Math.min(sizeBytes, WAITING_BYTES_MAX);
        room.acquire(taken);
        calls.execute(() -> {
            sendAll(in, Math.max(1, in.path("callers").asInt(1)));
            room.release(taken);
        });
    }

    /** Each caller is a thread that gives its share in order. Returns when all are given. */
    private void sendAll(JsonNode in, int callers) {
        Thread[] others = new Thread[callers - 1];
        for (int i = 0; i < others.length; i++) {
            int caller = i + 1;
            others[i] = new Thread(() -> sendShare(in, caller, callers));
            others[i].start();
        }
        sendShare(in, 0, callers);
        for (Thread other : others) {
            try {
                other.join();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void sendShare(JsonNode in, int caller, int callers) {
        JsonNode records = in.get("records");
        for (int i = caller; i < records.size(); i += callers) {
            send(in.get("topic").asText(), records.get(i));
        }
    }

    private void send(String topic, JsonNode in) {
        long seq = in.get("seq").asLong();
        open.put(seq, Out.nowUs());
        Thread self = Thread.currentThread();
        try {
            List<Header> headers = new ArrayList<>();
            for (JsonNode header : in.path("headers")) {
                headers.add(new RecordHeader(header.get("key").asText(), header.get("value").binaryValue()));
            }
            Integer partition = in.has("partition") ? in.get("partition").asInt() : null;
            byte[] value = in.get("value").binaryValue();
            producer.send(new ProducerRecord<>(topic, partition, null, in.get("key").binaryValue(), value, headers),
                (metadata, error) -> tell(seq, metadata, error, Thread.currentThread() == self));
        } catch (Exception error) {
            tell(seq, null, error, true);
        }
    }

    private void tell(long seq, RecordMetadata metadata, Exception error, boolean isWithinSend) {
        Long sentUs = open.remove(seq);
        if (sentUs == null) {
            return;
        }
        Map<String, Object> told = Out.fields("seq", seq, "sent_us", sentUs);
        if (error == null && isAcked) {
            told.put("partition", metadata.partition());
            told.put("offset", metadata.offset()); // -1 if the batch was there already
            told.put("timestamp_ms", metadata.timestamp());
            Out.say("acknowledged", Out.fields("records", List.of(told)));
        } else if (error == null) {
            Out.say("unknown", Out.fields("records", List.of(told), "code", 0));
        } else {
            int code = isWithinSend ? -1 : Out.codeOf(error); // no broker has seen it
            boolean isFailed = isWithinSend ? isRefused(error) : failedCodes.contains(code);
            Map<String, Object> all = Out.fields("records", List.of(told), "code", code, "reason", Out.reasonOf(error));
            Out.say(isFailed ? "failed" : "unknown", all);
        }
    }

    /** Refused before it was queued. Other errors of send() may come when the record is in a batch: the state of a
     * transaction is looked at last. */
    private static boolean isRefused(Exception error) {
        boolean isFenced = Out.codeOf(error) == Errors.INVALID_PRODUCER_EPOCH.code();
        boolean isOfState = isFenced || error instanceof ProducerFencedException;
        return error instanceof IllegalArgumentException || error instanceof ApiException && !isOfState;
    }

    void act(String todo, Duration time) throws Exception {
        switch (todo) {
            case "flush" -> within(time, todo, producer::flush);
            case "begin" -> within(time, todo, producer::beginTransaction);
            case "commit-transaction" -> within(time, todo, producer::commitTransaction);
            default -> within(time, todo, producer::abortTransaction);
        }
    }

    void sendOffsets(Map<TopicPartition, Long> places, Reading reader, Duration time) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        places.forEach((place, at) -> positions.put(place, new OffsetAndMetadata(at)));
        within(time, "send-offsets", Versions.offsetsSender(producer, positions, reader));
    }

    void close(Duration time) throws Exception {
        long endUs = Out.nowUs() + time.toMillis() * 1_000;
        calls.shutdown();
        calls.awaitTermination(time.toMillis(), TimeUnit.MILLISECONDS);
        Versions.close(producer, Duration.ofMillis(Math.max(0, (endUs - Out.nowUs()) / 1_000)));
        calls.awaitTermination(CLOSED_S, TimeUnit.SECONDS); // a send() that waited ends with an error
        open.keySet().forEach(seq -> tell(seq, null, new KafkaException("closed while it was under way"), true));
    }

    private void within(Duration time, String name, Runnable call) throws Exception {
        if (late == null || !lateCall.equals(name) || name.equals("flush")) { // another flush is about more records
            late = calls.submit(call);
            lateCall = name;
        }
        try {
            late.get(time.toMillis(), TimeUnit.MILLISECONDS);
        } catch (java.util.concurrent.TimeoutException error) {
            throw new TimeoutException(name + " has not returned within " + time.toMillis() + " ms");
        } catch (ExecutionException error) {
            late = null;
            throw (Exception) error.getCause();
        }
        late = null;
    }
}
