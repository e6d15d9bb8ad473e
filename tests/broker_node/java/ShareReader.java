import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group. Arguments: bootstrap servers, group, topic, what it does with records, how many it reads at
 * most, milliseconds without a record until it ends, then settings as KEY=VALUE. It also ends after its input has.
 *
 * What it does: `implicit` accepts by the next poll; `accept`, `release` and `reject` say so record by record; `mixed`
 * accepts values that end in 0 to 7, releases 8 and rejects 9; `hold` acknowledges nothing and waits to be killed;
 * `renew` renews the locks of the first poll for `hold.ms` before it accepts. Prints a line `offset partition value
 * deliveries` for each record, `lost ERROR` for acknowledgements that failed, `end` when it has closed.
 */
final class ShareReader {
    private static volatile boolean isStopped = false;

    public static void main(String[] arguments) throws Exception {
        String kind = arguments[3];
        int limit = Integer.parseInt(arguments[4]);
        long idleMs = Long.parseLong(arguments[5]);
        Properties properties = new Properties();
        properties.putAll(Map.of(
            "bootstrap.servers", arguments[0],
            "group.id", arguments[1],
            "key.deserializer", ByteArrayDeserializer.class.getName(),
            "value.deserializer", StringDeserializer.class.getName(),
            "share.acknowledgement.mode", kind.equals("implicit") ? "implicit" : "explicit"));
        Map<String, String> own = new HashMap<>();
        for (int index = 6; index < arguments.length; index++) {
            String[] parts = arguments[index].split("=", 2);
            own.put(parts[0], parts[1]);
        }
        long holdMs = Long.parseLong(own.getOrDefault("hold.ms", "0"));
        own.remove("hold.ms");
        properties.putAll(own);
        KafkaShareConsumer<byte[], String> consumer = new KafkaShareConsumer<>(properties);
        consumer.setAcknowledgementCommitCallback((offsets, error) -> {
            if (error != null) System.out.println("lost " + error.getClass().getSimpleName());
        });
        consumer.subscribe(List.of(arguments[2]));
        Thread input = new Thread(ShareReader::waitForEndOfInput);
        input.setDaemon(true);
        input.start();
        int count = 0;
        long lastMs = System.currentTimeMillis();
        while (count < limit && !isStopped && System.currentTimeMillis() - lastMs < idleMs) {
            for (ConsumerRecord<byte[], String> record : consumer.poll(Duration.ofMillis(200))) {
                count++;
                lastMs = System.currentTimeMillis();
                System.out.println(record.offset() + " " + record.partition() + " " + record.value() + " "
                    + record.deliveryCount().orElse((short) -1));
                if (kind.equals("hold")) continue;
                if (kind.equals("renew") && holdMs > 0) consumer.acknowledge(record, AcknowledgeType.RENEW);
                else if (!kind.equals("implicit")) consumer.acknowledge(record, what(kind, record.value()));
            }
            System.out.flush();
            if (kind.equals("hold") && count > 0) {
                System.out.println("held");
                Thread.currentThread().join();
            }
            if (kind.equals("renew") && count > 0 && holdMs > 0) {
                renewed(consumer, holdMs);
                break;
            }
        }
        consumer.commitSync();
        consumer.close();
        System.out.println("end");
    }

    private static void waitForEndOfInput() {
        try {
            while (System.in.read() >= 0) { }
        } catch (IOException error) {
            System.out.println("input: " + error);
        }
        isStopped = true;
    }

    /** The same records are polled again after each renewal, until the time is over. */
    private static void renewed(KafkaShareConsumer<byte[], String> consumer, long holdMs) {
        long endMs = System.currentTimeMillis() + holdMs;
        boolean isOver = false;
        while (!isOver) {
            isOver = System.currentTimeMillis() >= endMs;
            AcknowledgeType kind = isOver ? AcknowledgeType.ACCEPT : AcknowledgeType.RENEW;
            int count = 0;
            while (count == 0) {
                for (ConsumerRecord<byte[], String> record : consumer.poll(Duration.ofMillis(300))) {
                    consumer.acknowledge(record, kind);
                    count++;
                }
            }
        }
    }

    private static AcknowledgeType what(String kind, String value) {
        if (kind.equals("mixed")) {
            char last = value.charAt(value.length() - 1);
            return last == '9' ? AcknowledgeType.REJECT : last == '8' ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
        }
        return kind.equals("release") ? AcknowledgeType.RELEASE
            : kind.equals("reject") ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
    }
}
