import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
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
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Mode `copier`: a transactional copier, the same application as workloads/members/copying.py. It reads as a member
 * does, and a poll is a transaction.
 */
final class Copier {
    private static final int RENEWALS_MAX = 50;
    private static final long TRANSACTION_TIMEOUT_MS = 30_000;

    private final Member member;
    private final Journal journal;

    Copier(Member member) {
        this.member = member;
        journal = member.journal;
    }

    void run() throws Exception {
        long number = 0;
        for (int renewal = 0; renewal < RENEWALS_MAX && !member.isStopping(); renewal++) {
            try (KafkaConsumer<byte[], byte[]> consumer = member.newConsumer(); Transactions producer = new Transactions()) {
                producer.init();
                if (renewal == 0) {
                    journal.write("started", "");
                }
                number = copyUntilUnknown(consumer, producer, number);
            }
            if (!member.isStopping()) {
                Thread.sleep(500);
            }
        }
        if (!member.isStopping()) {
            throw new KafkaException(RENEWALS_MAX + " producers were of no more use, one after the other");
        }
    }

    private long copyUntilUnknown(KafkaConsumer<byte[], byte[]> consumer, Transactions producer, long number) throws Exception {
        while (!member.isStopping()) {
            List<ConsumerRecord<byte[], byte[]>> records = Member.listOf(consumer.poll(Duration.ofMillis(Member.POLL_MS)));
            if (records.isEmpty()) {
                continue;
            }
            long polledNs = System.nanoTime();
            number++;
            journal.write("transaction_began", "\"number\":" + number + ",\"records\":" + records.size());
            journal.delivered(records, polledNs);
            long askedNs = System.nanoTime();
            String outcome;
            String reason = "";
            try {
                producer.begin();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    producer.copy(record, number);
                }
                member.process(records.size());
                producer.offsets(Member.positionsAfter(records), consumer);
                askedNs = System.nanoTime();
                producer.commit();
                outcome = "committed";
            } catch (KafkaException error) {
                reason = error.toString();
                outcome = producer.tryAbort(error) ? "aborted" : "unknown";
            }
            journal.write("transaction", "\"number\":" + number + ",\"outcome\":\"" + outcome + "\",\"asked_ns\":" + askedNs + ",\"reason\":" + Journal.quoted(reason));
            if (outcome.equals("committed")) {
                journal.committed(Member.positionsAfter(records));
            } else if (outcome.equals("aborted")) {
                for (ConsumerRecord<byte[], byte[]> record : Member.firstOfEach(records)) {
                    TopicPartition partition = new TopicPartition(record.topic(), record.partition());
                    if (consumer.assignment().contains(partition)) {
                        consumer.seek(partition, record.offset());
                    }
                }
            } else {
                journal.write("renewed", "\"reason\":" + Journal.quoted(reason));
                return number;
            }
        }
        return number;
    }

    /** The producer of a copier. */
    private final class Transactions implements AutoCloseable {
        private final KafkaProducer<byte[], byte[]> producer;

        Transactions() {
            Properties settings = member.settings("producer.");
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
            ProducerRecord<byte[], byte[]> copy = new ProducerRecord<>(member.spec.getProperty("copy_to"), record.partition(), record.key(), record.value());
            String header = member.spec.getProperty("consumer_number") + "/" + member.spec.getProperty("incarnation") + "/" + number;
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
                    if (System.nanoTime() > deadlineNs || member.isStopping()) {
                        throw error;
                    }
                }
            }
        }
    }
}
