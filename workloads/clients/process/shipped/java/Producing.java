import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;

/** One KafkaProducer: its records and their outcomes, and its transactions. */
final class Producing {
    private final KafkaProducer<byte[], byte[]> producer;
    private final Set<Integer> failedCodes = new HashSet<>();
    private final boolean isAcked;
    // flush() and what ends a transaction have no time of their own. They run here; a late one is waited for again.
    private final ExecutorService waiting = Executors.newSingleThreadExecutor();
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

    /** While the library has no room, send() waits: nothing is read meanwhile. */
    void produce(JsonNode in) throws Exception {
        Thread self = Thread.currentThread();
        for (JsonNode each : in.get("records")) {
            List<Header> headers = new ArrayList<>();
            for (JsonNode header : each.path("headers")) {
                headers.add(new RecordHeader(header.get("key").asText(), header.get("value").binaryValue()));
            }
            Integer partition = each.has("partition") ? each.get("partition").asInt() : null;
            byte[] key = each.get("key").binaryValue();
            byte[] value = each.get("value").binaryValue();
            ProducerRecord<byte[], byte[]> record =
                new ProducerRecord<>(in.get("topic").asText(), partition, null, key, value, headers);
            Map<String, Object> told = Out.fields("seq", each.get("seq").asLong(), "sent_us", Out.nowUs());
            AtomicBoolean isTold = new AtomicBoolean(); // an error of send() may be followed by one of the batch
            try {
                producer.send(record, (metadata, error) -> {
                    if (isTold.compareAndSet(false, true)) {
                        tell(told, metadata, error, Thread.currentThread() == self);
                    }
                });
            } catch (Exception error) {
                if (isTold.compareAndSet(false, true)) {
                    tell(told, null, error, true);
                }
            }
        }
    }

    private void tell(Map<String, Object> told, RecordMetadata metadata, Exception error, boolean isWithinSend) {
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
            String reason = Out.reasonOf(error);
            Out.say(isFailed ? "failed" : "unknown", Out.fields("records", List.of(told), "code", code, "reason", reason));
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
            case "begin" -> producer.beginTransaction();
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
        Versions.close(producer, time); // all callbacks come before it returns
        waiting.shutdown();
    }

    private void within(Duration time, String name, Runnable call) throws Exception {
        if (late == null || !lateCall.equals(name)) {
            late = waiting.submit(call);
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
