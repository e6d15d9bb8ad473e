import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicIdPartition;

/** One KafkaShareConsumer. Records are acknowledged one by one, so it is told that this is explicit. */
final class Sharing extends Reading {
    private final KafkaShareConsumer<byte[], byte[]> sharer;
    private final Map<String, ConsumerRecord<byte[], byte[]>> given = new HashMap<>(); // and not acknowledged yet
    private final Map<String, JsonNode> asked = new HashMap<>(); // acknowledged, and the broker has not answered yet

    Sharing(Map<String, Object> properties) {
        properties.putIfAbsent("share.acknowledgement.mode", "explicit");
        sharer = new KafkaShareConsumer<>(properties);
        sharer.setAcknowledgementCommitCallback(this::tell);
    }

    @Override
    void wake() {
        sharer.wakeup();
    }

    @Override
    ConsumerRecords<byte[], byte[]> more(Duration time) {
        return sharer.poll(time);
    }

    @Override
    Map<String, Object> told(ConsumerRecord<byte[], byte[]> record) {
        given.put(name(record.topic(), record.partition(), record.offset()), record);
        Map<String, Object> fields = super.told(record);
        fields.put("delivery_count", record.deliveryCount().orElse((short) 1));
        return fields;
    }

    @Override
    void act(String todo, JsonNode in) {
        if (todo.equals("subscribe")) {
            sharer.subscribe(topics(in));
            return;
        }
        if (!todo.equals("share-acknowledge")) {
            throw new IllegalArgumentException(todo + " is not for a member of a share group");
        }
        for (JsonNode each : in.get("records")) {
            String name = name(each.get("topic").asText(), each.get("partition").asInt(), each.get("offset").asLong());
            ConsumerRecord<byte[], byte[]> record = given.remove(name);
            if (record == null) {
                throw new IllegalStateException("no poll gave " + name + ", or it is acknowledged already");
            }
            sharer.acknowledge(record, AcknowledgeType.valueOf(each.get("type").asText().toUpperCase()));
            asked.put(name, each);
        }
    }

    /** The library's next poll, or its close, takes the acknowledgements to the broker. */
    private void tell(Map<TopicIdPartition, Set<Long>> offsets, Exception error) {
        List<JsonNode> told = new ArrayList<>();
        offsets.forEach((place, found) -> found.forEach(offset -> {
            JsonNode each = asked.remove(name(place.topic(), place.partition(), offset));
            if (each != null) { // else it is a gap, which the library acknowledges itself
                told.add(each);
            }
        }));
        if (!told.isEmpty()) {
            String reason = error == null ? "" : Out.reasonOf(error);
            int code = error == null ? 0 : Out.codeOf(error);
            Out.say("share-acknowledged", Out.fields("records", told, "code", code, "reason", reason));
        }
    }

    @Override
    void close(Duration time) {
        sharer.close(time);
    }

    private static String name(String topic, int partition, long offset) {
        return topic + "-" + partition + ", offset " + offset;
    }
}
