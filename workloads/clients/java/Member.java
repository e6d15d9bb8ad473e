import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
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
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Mode `member`: a group member, the same application, with the same journal, as workloads/members/loop.py. Started with
 * one file of properties (workloads/members/spec.py). SIGTERM: what was polled and not processed is left undone, the
 * member leaves its group, exit 0.
 */
final class Member {
    static final long POLL_MS = 50;
    static final long SLICE_US = 20_000;
    private static final long END_WITHIN_MS = 8_000;

    private static volatile boolean stopping; // SIGTERM may come before there is a member
    private static Member running; // interceptors are made by the consumer, which knows of no journal

    final Properties spec = new Properties();
    final Journal journal;
    final String commit;
    final long processingUs;

    /** Ends this JVM: with 0 after SIGTERM, with 1 when anything went wrong. */
    static void run(String path, String mode) throws Exception {
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
        Member member = new Member(path);
        running = member;
        try {
            if (mode.equals("copier")) {
                new Copier(member).run();
            } else if (mode.equals("share")) {
                new Sharer(member).run();
            } else {
                member.read();
            }
            member.journal.write("left", "");
        } catch (Exception error) {
            member.journal.write("problem", "\"message\":" + Journal.quoted(error.toString()));
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
        journal = new Journal(spec.getProperty("journal"));
        commit = spec.getProperty("commit");
        processingUs = Long.parseLong(spec.getProperty("processing_us"));
    }

    boolean isStopping() {
        return stopping;
    }

    // ---- reading -----------------------------------------------------------------------------------------------------

    private void read() throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = newConsumer()) {
            journal.write("started", "");
            while (!stopping) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(POLL_MS));
                if (!records.isEmpty()) {
                    work(consumer, listOf(records), System.nanoTime());
                }
            }
        }
    }

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
            process(part.size());
            journal.delivered(part, polledNs);
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
        journal.committed(positions);
    }

    KafkaConsumer<byte[], byte[]> newConsumer() throws IOException {
        Properties settings = settings("consumer.");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("interceptor.classes", Commits.class.getName());
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(List.of(spec.getProperty("topic")), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                journal.tell("assigned", "\"generation\":" + consumer.groupMetadata().generationId() + "," + Journal.named(partitions));
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                journal.tell("revoked", Journal.named(partitions));
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
                    running.journal.committed(offsets);
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

    // ---- small -------------------------------------------------------------------------------------------------------

    Properties settings(String prefix) {
        Properties found = new Properties();
        for (String name : spec.stringPropertyNames()) {
            if (name.startsWith(prefix)) {
                found.put(name.substring(prefix.length()), spec.getProperty(name));
            }
        }
        return found;
    }

    static List<ConsumerRecord<byte[], byte[]>> listOf(ConsumerRecords<byte[], byte[]> records) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>(records.count());
        records.forEach(found::add);
        return found;
    }

    static Map<TopicPartition, OffsetAndMetadata> positionsAfter(List<ConsumerRecord<byte[], byte[]>> records) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            found.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        return found;
    }

    static Collection<ConsumerRecord<byte[], byte[]>> firstOfEach(List<ConsumerRecord<byte[], byte[]>> records) {
        Map<TopicPartition, ConsumerRecord<byte[], byte[]>> found = new HashMap<>();
        records.forEach(record -> found.putIfAbsent(new TopicPartition(record.topic(), record.partition()), record));
        return found.values();
    }

    /** The application's own work takes its time. */
    void process(int records) throws InterruptedException {
        long durationUs = records * processingUs;
        if (durationUs > 0) {
            Thread.sleep(durationUs / 1000, (int) (durationUs % 1000) * 1000);
        }
    }
}
