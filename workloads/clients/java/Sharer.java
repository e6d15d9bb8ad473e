import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.errors.InvalidRecordStateException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Mode `share`: a member of a share group, the same application, with the same journal, as workloads/members/sharing.py. */
final class Sharer {
    private static final long POLL_MS = 200;
    // The client does not tell when it asked for a record. A request is given up after request.timeout.ms, and records
    // wait in the client no longer than this, because a poll asks for no more than it returns at once.
    private static final long WAITED_MS = 10_000;
    private static final long REQUEST_TIMEOUT_MS = 30_000;

    private final Member member;
    private final boolean isExplicit;
    private final long rejectsEvery;
    private final long releasesEvery;
    private final long askedBeforeNs;
    private final Map<String, Map<Long, AcknowledgeType>> said = new HashMap<>(); // by partition, then by offset

    Sharer(Member member) {
        this.member = member;
        isExplicit = member.commit.equals("after");
        rejectsEvery = Long.parseLong(member.spec.getProperty("rejects_every"));
        releasesEvery = Long.parseLong(member.spec.getProperty("releases_every"));
        String timeout = member.settings("consumer.").getProperty("request.timeout.ms", Long.toString(REQUEST_TIMEOUT_MS));
        askedBeforeNs = (Long.parseLong(timeout) + WAITED_MS) * 1_000_000;
    }

    void run() throws Exception {
        Properties settings = member.settings("consumer.");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.setAcknowledgementCommitCallback(this::tell);
            consumer.subscribe(List.of(member.spec.getProperty("topic")));
            member.journal.write("started", "");
            while (!member.isStopping()) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(POLL_MS));
                if (!records.isEmpty()) {
                    work(consumer, Member.listOf(records), System.nanoTime());
                }
            }
        }
    }

    private void work(KafkaShareConsumer<byte[], byte[]> consumer, List<ConsumerRecord<byte[], byte[]>> records, long polledNs) throws Exception {
        polled(records, polledNs);
        int size = member.processingUs == 0 ? records.size() : (int) Math.max(1, Member.SLICE_US / member.processingUs);
        for (int first = 0; first < records.size(); first += size) {
            if (member.isStopping()) {
                return; // the close that follows releases them
            }
            List<ConsumerRecord<byte[], byte[]>> part = records.subList(first, Math.min(records.size(), first + size));
            member.process(part.size());
            member.journal.delivered(part, polledNs);
            for (ConsumerRecord<byte[], byte[]> record : part) {
                AcknowledgeType kind = isExplicit ? decision(record) : AcknowledgeType.ACCEPT;
                said.computeIfAbsent(key(record.topic(), record.partition()), name -> new HashMap<>()).put(record.offset(), kind);
                if (isExplicit) {
                    consumer.acknowledge(record, kind);
                }
            }
        }
    }

    private AcknowledgeType decision(ConsumerRecord<byte[], byte[]> record) {
        if (rejectsEvery > 0 && record.offset() % rejectsEvery == 0) {
            return AcknowledgeType.REJECT;
        }
        boolean isFirst = record.deliveryCount().orElse((short) 1) == 1;
        return releasesEvery > 0 && record.offset() % releasesEvery == 0 && isFirst ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
    }

    private void polled(List<ConsumerRecord<byte[], byte[]>> records, long polledNs) throws IOException {
        StringBuilder rows = new StringBuilder();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            rows.append(rows.length() == 0 ? "" : ",").append('[').append(Journal.quoted(record.topic())).append(',').append(record.partition());
            rows.append(',').append(record.offset()).append(',').append(record.deliveryCount().orElse((short) 1)).append(']');
        }
        long askedNs = polledNs - askedBeforeNs;
        member.journal.write("share_polled", "\"polled_ns\":" + polledNs + ",\"asked_ns\":" + askedNs + ",\"records\":[" + rows + "]");
    }

    /** Only this error means that the acknowledgements certainly do not count. */
    private void tell(Map<TopicIdPartition, Set<Long>> offsets, Exception error) {
        String outcome = error == null ? "confirmed" : error instanceof InvalidRecordStateException ? "refused" : "unknown";
        String reason = error == null ? "" : error.getClass().getSimpleName();
        offsets.forEach((place, found) -> {
            Map<Long, AcknowledgeType> known = said.getOrDefault(key(place.topic(), place.partition()), Map.of());
            Map<AcknowledgeType, List<String>> byType = new TreeMap<>();
            for (Long offset : found) {
                AcknowledgeType kind = known.get(offset);
                if (kind != null) { // else it is a gap, which the client acknowledges itself
                    byType.computeIfAbsent(kind, each -> new ArrayList<>()).add(Long.toString(offset));
                }
            }
            byType.forEach((kind, told) -> {
                String rest = "\"topic\":" + Journal.quoted(place.topic()) + ",\"partition\":" + place.partition() + ",\"type\":\""
                    + kind.toString().toLowerCase(java.util.Locale.ROOT) + "\",\"outcome\":\"" + outcome + "\",\"offsets\":["
                    + String.join(",", told) + "],\"reason\":" + Journal.quoted(reason);
                member.journal.tell("share_acknowledged", rest);
            });
        });
    }

    private static String key(String topic, int partition) {
        return topic + "-" + partition;
    }
}
