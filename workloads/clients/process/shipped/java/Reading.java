import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/** One KafkaConsumer, with partitions of its own or in a group. Sharing.java is one of a share group. */
class Reading implements ConsumerRebalanceListener {
    final KafkaConsumer<byte[], byte[]> consumer;
    final String groupId;
    private final Deque<ConsumerRecord<byte[], byte[]>> kept = new ArrayDeque<>(); // more than the last poll wanted

    Reading(Map<String, Object> properties) {
        consumer = new KafkaConsumer<>(properties);
        groupId = (String) properties.get("group.id");
    }

    /** For one that has another consumer. */
    Reading() {
        consumer = null;
        groupId = null;
    }

    List<Map<String, Object>> polled(JsonNode in, Waking waking) {
        long endUs = Out.nowUs() + in.get("timeout_ms").asLong() * 1_000;
        boolean isHeard = false;
        try {
            while (kept.isEmpty()) {
                long leftMs = Math.max(0, (endUs - Out.nowUs()) / 1_000);
                more(Duration.ofMillis(leftMs)).forEach(kept::add);
                if (leftMs == 0) {
                    break;
                }
            }
        } catch (WakeupException error) {
            isHeard = true;
        } finally {
            if (waking.isOver() && !isHeard) { // else the next call that waits would be woken
                try {
                    more(Duration.ZERO).forEach(kept::add);
                } catch (WakeupException error) {
                    // That was it.
                }
            }
        }
        List<Map<String, Object>> told = new ArrayList<>();
        for (int left = in.get("max_records").asInt(); left > 0 && !kept.isEmpty(); left--) {
            told.add(told(kept.remove()));
        }
        return told;
    }

    void wake() {
        consumer.wakeup();
    }

    ConsumerRecords<byte[], byte[]> more(Duration time) {
        return consumer.poll(time);
    }

    Map<String, Object> told(ConsumerRecord<byte[], byte[]> record) {
        List<Object> headers = new ArrayList<>();
        record.headers().forEach(each -> headers.add(Out.fields("key", each.key(), "value", each.value())));
        return Out.fields("topic", record.topic(), "partition", record.partition(), "offset", record.offset(),
            "key", record.key(), "value", record.value(), "timestamp_ms", record.timestamp(), "headers", headers);
    }

    void act(String todo, JsonNode in) {
        Map<TopicPartition, Long> places = Client.places(in);
        switch (todo) {
            case "subscribe" -> {
                giveBack(place -> true);
                consumer.subscribe(topics(in), this);
            }
            case "assign" -> {
                kept.clear();
                consumer.assign(places.keySet());
                places.forEach(this::seek);
            }
            case "seek" -> places.forEach((place, at) -> {
                kept.removeIf(record -> place.equals(placeOf(record)));
                seek(place, at);
            });
            case "pause" -> {
                giveBack(places::containsKey);
                consumer.pause(places.keySet());
            }
            case "resume" -> consumer.resume(places.keySet());
            default -> throw new IllegalArgumentException(todo + " is not for a consumer");
        }
    }

    static List<String> topics(JsonNode in) {
        List<String> found = new ArrayList<>();
        in.get("topics").forEach(topic -> found.add(topic.asText()));
        return found;
    }

    void close(Duration time) {
        giveBack(place -> true);
        consumer.close(time);
    }

    private void seek(TopicPartition place, long at) {
        if (at == -2) {
            consumer.seekToBeginning(List.of(place));
        } else if (at == -1) {
            consumer.seekToEnd(List.of(place));
        } else {
            consumer.seek(place, at);
        }
    }

    /** What was not told is not read yet. Without this the library would commit it by itself. */
    private void giveBack(Predicate<TopicPartition> isWanted) {
        Set<TopicPartition> done = new HashSet<>();
        for (ConsumerRecord<byte[], byte[]> record : kept) {
            TopicPartition place = placeOf(record);
            if (isWanted.test(place) && consumer.assignment().contains(place) && done.add(place)) {
                consumer.seek(place, record.offset());
            }
        }
        kept.removeIf(record -> isWanted.test(placeOf(record)));
    }

    private static TopicPartition placeOf(ConsumerRecord<byte[], byte[]> record) {
        return new TopicPartition(record.topic(), record.partition());
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        rebalanced("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        rebalanced("revoked", partitions);
    }

    public void onPartitionsLost(Collection<TopicPartition> partitions) { // of the interface from 2.4 on
        rebalanced("lost", partitions);
    }

    private static void rebalanced(String event, Collection<TopicPartition> partitions) {
        List<Object> told = new ArrayList<>();
        partitions.forEach(each -> told.add(Out.fields("topic", each.topic(), "partition", each.partition())));
        Out.say(event, Out.fields("partitions", told));
    }
}
