import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A group member or a transactional copier over Apache Kafka's Java client: the same application, with the same journal,
 * as workloads/members/loop.py and copying.py. Started with one file of properties (workloads/members/spec.py).
 * SIGTERM: what was polled and not processed is left undone, the member leaves its group, exit 0.
 */
public final class Member {
    private static final long POLL_MS = 50;
    private static final long SLICE_US = 20_000;
    private static final int RENEWALS_MAX = 50;
    private static final long TRANSACTION_TIMEOUT_MS = 30_000;
    private static final long END_WITHIN_MS = 8_000;

    private static volatile boolean stopping;
    private static Member running; // interceptors are made by the consumer, which knows of no journal

    private final Properties spec = new Properties();
    private final FileOutputStream journal;
    private final String commit;
    private final long processingUs;

    public static void main(String[] arguments) throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        int[] code = {0};
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            try {
                done.await(END_WITHIN_MS, TimeUnit.MILLISECONDS);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
            Runtime.getRuntime().halt(code[0]);
        }));
        Member member = new Member(arguments[0]);
        running = member;
        try {
            member.run();
        } catch (Exception error) {
            member.write("problem", "\"message\":" + quoted(error.toString()));
            System.err.println("member " + member.spec.getProperty("member") + ": " + error);
            code[0] = 1;
        }
        done.countDown();
        System.exit(code[0]);
    }

    private Member(String path) throws IOException {
        try (InputStreamReader reader = new InputStreamReader(new FileInputStream(path), StandardCharsets.UTF_8)) {
            spec.load(reader);
        }
        journal = new FileOutputStream(spec.getProperty("journal"), true);
        commit = spec.getProperty("commit");
        processingUs = Long.parseLong(spec.getProperty("processing_us"));
    }

    private void run() throws Exception {
        if (!spec.getProperty("copy_to").isEmpty()) {
            copyAll();
        } else {
            try (KafkaConsumer<byte[], byte[]> consumer = newConsumer()) {
                write("started", "");
                while (!stopping) {
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(POLL_MS));
                    if (!records.isEmpty()) {
                        work(consumer, listOf(records), System.nanoTime());
                    }
                }
            }
        }
        write("left", "");
    }

    // ---- reading -----------------------------------------------------------------------------------------------------

    private void work(KafkaConsumer<byte[], byte[]> consumer, List<ConsumerRecord<byte[], byte[]>> records, long polledNs) throws Exception {
        if (commit.equals("before")) {
            commitNow(consumer, positionsAfter(records));
        }
        int size = processingUs == 0 ? records.size() : (int) Math.max(1, SLICE_US / processingUs);
        for (int first = 0; first < records.size(); first += size) {
            if (stopping) {
                // What is not processed must not be committed by the close that follows.
                for (ConsumerRecord<byte[], byte[]> record : firstOfEach(records.subList(first, records.size()))) {
                    consumer.seek(new TopicPartition(record.topic(), record.partition()), record.offset());
                }
                return;
            }
            List<ConsumerRecord<byte[], byte[]>> part = records.subList(first, Math.min(records.size(), first + size));
            sleepUs(part.size() * processingUs);
            writeDelivered(part, polledNs);
        }
        if (commit.equals("after")) {
            commitNow(consumer, positionsAfter(records));
        }
    }

    private void commitNow(KafkaConsumer<byte[], byte[]> consumer, Map<TopicPartition, OffsetAndMetadata> positions) throws IOException {
        try {
            consumer.commitSync(positions);
        } catch (CommitFailedException | RebalanceInProgressException error) {
            return; // the next owner begins at the commit before
        }
        writeCommitted(positions);
    }

    private KafkaConsumer<byte[], byte[]> newConsumer() throws IOException {
        Properties settings = settings("consumer.");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("interceptor.classes", Commits.class.getName());
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(List.of(spec.getProperty("topic")), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                tell("assigned", "\"generation\":" + consumer.groupMetadata().generationId() + "," + named(partitions));
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                tell("revoked", named(partitions));
            }
        });
        return consumer;
    }

    /** Of auto-commits: they have no other witness. */
    public static final class Commits implements ConsumerInterceptor<byte[], byte[]> {
        @Override
        public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
            return records;
        }

        @Override
        public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
            if (running.commit.equals("auto")) {
                try {
                    running.writeCommitted(offsets);
                } catch (IOException error) {
                    throw new KafkaException(error);
                }
            }
        }

        @Override
        public void close() {
        }

        @Override
        public void configure(Map<String, ?> configs) {
        }
    }

    // ---- copying -----------------------------------------------------------------------------------------------------

    private void copyAll() throws Exception {
        long number = 0;
        for (int renewal = 0; renewal < RENEWALS_MAX && !stopping; renewal++) {
            try (KafkaConsumer<byte[], byte[]> consumer = newConsumer(); Transactions producer = new Transactions()) {
                producer.init();
                if (renewal == 0) {
                    write("started", "");
                }
                number = copyUntilUnknown(consumer, producer, number);
            }
            if (!stopping) {
                Thread.sleep(500);
            }
        }
        if (!stopping) {
            throw new KafkaException(RENEWALS_MAX + " producers were of no more use, one after the other");
        }
    }

    private long copyUntilUnknown(KafkaConsumer<byte[], byte[]> consumer, Transactions producer, long number) throws Exception {
        while (!stopping) {
            List<ConsumerRecord<byte[], byte[]>> records = listOf(consumer.poll(Duration.ofMillis(POLL_MS)));
            if (records.isEmpty()) {
                continue;
            }
            long polledNs = System.nanoTime();
            number++;
            write("transaction_began", "\"number\":" + number + ",\"records\":" + records.size());
            writeDelivered(records, polledNs);
            long askedNs = System.nanoTime();
            String outcome;
            String reason = "";
            try {
                producer.begin();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    producer.copy(record, number);
                }
                sleepUs(records.size() * processingUs);
                producer.offsets(positionsAfter(records), consumer);
                askedNs = System.nanoTime();
                producer.commit();
                outcome = "committed";
            } catch (KafkaException error) {
                reason = error.toString();
                outcome = producer.tryAbort(error) ? "aborted" : "unknown";
            }
            write("transaction", "\"number\":" + number + ",\"outcome\":\"" + outcome + "\",\"asked_ns\":" + askedNs + ",\"reason\":" + quoted(reason));
            if (outcome.equals("committed")) {
                writeCommitted(positionsAfter(records));
            } else if (outcome.equals("aborted")) {
                for (ConsumerRecord<byte[], byte[]> record : firstOfEach(records)) {
                    TopicPartition partition = new TopicPartition(record.topic(), record.partition());
                    if (consumer.assignment().contains(partition)) {
                        consumer.seek(partition, record.offset());
                    }
                }
            } else {
                write("renewed", "\"reason\":" + quoted(reason));
                return number;
            }
        }
        return number;
    }

    /** The producer of a copier. */
    private final class Transactions implements AutoCloseable {
        private final KafkaProducer<byte[], byte[]> producer;

        Transactions() {
            Properties settings = settings("producer.");
            settings.put("key.serializer", ByteArraySerializer.class.getName());
            settings.put("value.serializer", ByteArraySerializer.class.getName());
            producer = new KafkaProducer<>(settings);
        }

        void init() {
            patiently(producer::initTransactions);
        }

        void begin() {
            producer.beginTransaction();
        }

        void copy(ConsumerRecord<byte[], byte[]> record, long number) {
            ProducerRecord<byte[], byte[]> copy = new ProducerRecord<>(spec.getProperty("copy_to"), record.partition(), record.key(), record.value());
            String header = spec.getProperty("consumer_number") + "/" + spec.getProperty("incarnation") + "/" + number;
            copy.headers().add("copy", header.getBytes(StandardCharsets.UTF_8));
            producer.send(copy);
        }

        void offsets(Map<TopicPartition, OffsetAndMetadata> positions, KafkaConsumer<byte[], byte[]> consumer) {
            patiently(() -> producer.sendOffsetsToTransaction(positions, consumer.groupMetadata()));
        }

        void commit() {
            patiently(producer::commitTransaction);
        }

        /** False: nobody knows how the transaction ended, and this producer is of no more use. */
        boolean tryAbort(KafkaException cause) {
            boolean isFatal = cause instanceof ProducerFencedException || cause instanceof OutOfOrderSequenceException
                    || cause instanceof AuthorizationException || cause instanceof UnsupportedVersionException
                    || cause instanceof InvalidProducerEpochException || cause instanceof ApplicationRecoverableException
                    || cause instanceof TimeoutException;
            if (isFatal) {
                return false;
            }
            try {
                patiently(producer::abortTransaction);
                return true;
            } catch (KafkaException error) {
                return false;
            }
        }

        @Override
        public void close() {
            producer.close(Duration.ofMillis(500));
        }

        /** A call that timed out may be made again, and only that one. */
        private void patiently(Runnable call) {
            long deadlineNs = System.nanoTime() + TRANSACTION_TIMEOUT_MS * 1_000_000;
            while (true) {
                try {
                    call.run();
                    return;
                } catch (TimeoutException error) {
                    if (System.nanoTime() > deadlineNs || stopping) {
                        throw error;
                    }
                }
            }
        }
    }

    // ---- journal -----------------------------------------------------------------------------------------------------

    private void writeDelivered(List<ConsumerRecord<byte[], byte[]>> records, long polledNs) throws IOException {
        StringBuilder rows = new StringBuilder();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            byte[] value = record.value() == null ? new byte[0] : record.value();
            rows.append(rows.length() == 0 ? "" : ",").append('[').append(quoted(record.topic())).append(',').append(record.partition());
            rows.append(',').append(record.offset()).append(',').append(record.timestamp()).append(",\"");
            rows.append(Base64.getEncoder().encodeToString(value)).append("\"]");
        }
        write("delivered", "\"polled_ns\":" + polledNs + ",\"records\":[" + rows + "]");
    }

    private void writeCommitted(Map<TopicPartition, OffsetAndMetadata> positions) throws IOException {
        List<String> rows = new ArrayList<>();
        positions.forEach((partition, at) -> rows.add("[" + quoted(partition.topic()) + "," + partition.partition() + "," + at.offset() + "]"));
        if (!rows.isEmpty()) {
            write("committed", "\"offsets\":[" + String.join(",", rows) + "]");
        }
    }

    private void tell(String kind, String rest) {
        try {
            write(kind, rest);
        } catch (IOException error) {
            throw new KafkaException(error);
        }
    }

    /** One line, one write: a SIGKILL tears none. */
    private synchronized void write(String kind, String rest) throws IOException {
        String line = "{\"mono_ns\":" + System.nanoTime() + ",\"kind\":\"" + kind + "\"" + (rest.isEmpty() ? "" : "," + rest) + "}\n";
        journal.write(line.getBytes(StandardCharsets.UTF_8));
    }

    private static String named(Collection<TopicPartition> partitions) {
        List<String> names = new ArrayList<>();
        partitions.forEach(partition -> names.add("[" + quoted(partition.topic()) + "," + partition.partition() + "]"));
        return "\"partitions\":[" + String.join(",", names) + "]";
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char character : text.toCharArray()) {
            if (character == '"' || character == '\\') {
                out.append('\\').append(character);
            } else if (character < ' ') {
                out.append(' ');
            } else {
                out.append(character);
            }
        }
        return out.append('"').toString();
    }

    // ---- small -------------------------------------------------------------------------------------------------------

    private Properties settings(String prefix) {
        Properties found = new Properties();
        for (String name : spec.stringPropertyNames()) {
            if (name.startsWith(prefix)) {
                found.put(name.substring(prefix.length()), spec.getProperty(name));
            }
        }
        return found;
    }

    private static List<ConsumerRecord<byte[], byte[]>> listOf(ConsumerRecords<byte[], byte[]> records) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>(records.count());
        records.forEach(found::add);
        return found;
    }

    private static Map<TopicPartition, OffsetAndMetadata> positionsAfter(List<ConsumerRecord<byte[], byte[]>> records) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            found.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        return found;
    }

    private static Collection<ConsumerRecord<byte[], byte[]>> firstOfEach(List<ConsumerRecord<byte[], byte[]>> records) {
        Map<TopicPartition, ConsumerRecord<byte[], byte[]>> found = new HashMap<>();
        records.forEach(record -> found.putIfAbsent(new TopicPartition(record.topic(), record.partition()), record));
        return found.values();
    }

    private static void sleepUs(long durationUs) throws InterruptedException {
        if (durationUs > 0) {
            Thread.sleep(durationUs / 1000, (int) (durationUs % 1000) * 1000);
        }
    }
}
