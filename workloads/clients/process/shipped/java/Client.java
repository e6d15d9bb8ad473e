import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigException;

/**
 * A client of the harness over kafka-clients, 2.1 to 4.4. It speaks docs/reference/client-protocol.md.
 *
 * One thread reads commands, another one carries them out and answers. A poll that waits is woken by what comes after
 * it, because a KafkaConsumer is for one thread, and wakeup() is what it has for others. Outcomes of records come from the
 * library's own thread.
 */
public final class Client {
    private static final String BYTES = "org.apache.kafka.common.serialization.ByteArray";
    private static final String CONSUMERS = "org.apache.kafka.clients.consumer.";
    /** By the names that other libraries use; the names of classes are taken too. */
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", CONSUMERS + "RangeAssignor", "roundrobin", CONSUMERS + "RoundRobinAssignor",
        "sticky", CONSUMERS + "StickyAssignor", "cooperative-sticky", CONSUMERS + "CooperativeStickyAssignor");

    private Producing producer; // of a producer and of a copier
    private volatile Reading reader; // of all others, and of a copier too
    private final Waking waking = new Waking();

    public static void main(String[] arguments) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn"); // to standard error
        List<String> can = new ArrayList<>(List.of("produce", "partition", "headers", "callers", "assign", "subscribe",
            "seek", "pause", "commit", "transactions", "send-offsets", "overlap", "cancel"));
        Map<String, Object> lacks = Out.fields();
        if (Versions.canShare()) {
            can.add("share");
        } else {
            lacks.put("share", "kafka-clients has share groups that newer brokers know from 4.1 on");
        }
        Out.say("ready", Out.fields("protocol", 1, "client", "kafka-clients", "version", Versions.ofLibrary(),
            "can", can, "lacks", lacks, "exact_retries", true,
            "properties", Out.fields("producer", names("producer"), "consumer", names("consumer"))));
        Client client = new Client();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 20);
        // Of one place: while a command waits, nothing more than the next one is read.
        ArrayBlockingQueue<Map.Entry<JsonNode, Integer>> queue = new ArrayBlockingQueue<>(1);
        Thread worker = new Thread(() -> {
            while (true) {
                try {
                    Map.Entry<JsonNode, Integer> next = queue.take();
                    client.carryOut(next.getKey(), next.getValue());
                } catch (InterruptedException error) {
                    return;
                }
            }
        });
        worker.setDaemon(true);
        worker.start();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode in = Out.JSON.readTree(line);
            if (in.get("do").asText().equals("poll")) {
                client.waking.expect();
            } else if (!in.get("do").asText().equals("produce")) {
                client.waking.wake(client.reader);
            }
            queue.put(Map.entry(in, line.length()));
        }
        System.exit(0); // also if a thread of the library still waits
    }

    private void carryOut(JsonNode in, int sizeBytes) {
        Map<String, Object> answer = Out.fields("id", in.get("id").asLong());
        try {
            switch (in.get("do").asText()) {
                case "produce" -> producer.produce(in, sizeBytes);
                case "poll" -> {
                    List<Map<String, Object>> records = reader.polled(in, waking);
                    answer.put("records", records);
                    Out.say("polled", answer);
                }
                case "commit" -> {
                    Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
                    places(in).forEach((place, at) -> positions.put(place, new OffsetAndMetadata(at)));
                    reader.consumer.commitSync(positions, time(in));
                    answer.put("partitions", in.get("partitions"));
                    Out.say("committed", answer);
                }
                default -> {
                    act(in, answer);
                    Out.say("done", answer);
                }
            }
        } catch (Exception error) {
            answer.put("reason", Out.reasonOf(error));
            if (error instanceof WrongProperty) {
                answer.put("property", ((WrongProperty) error).name);
            } else {
                answer.put("code", Out.codeOf(error));
                answer.put("next", Out.nextOf(error));
            }
            Out.say("error", answer);
        }
    }

    private void act(JsonNode in, Map<String, Object> answer) throws Exception {
        String todo = in.get("do").asText();
        switch (todo) {
            case "connect" -> answer.put("effective", connect(in));
            case "cancel" -> { } // the poll was woken, and has been answered
            case "flush", "begin", "commit-transaction", "abort-transaction" -> producer.act(todo, time(in));
            case "send-offsets" -> producer.sendOffsets(places(in), reader, time(in));
            case "subscribe", "assign", "seek", "pause", "resume", "share-acknowledge" -> reader.act(todo, in);
            case "close" -> {
                long endNs = System.nanoTime() + time(in).toNanos(); // of both sides together
                if (reader != null) {
                    reader.close(time(in));
                }
                if (producer != null) {
                    producer.close(Duration.ofNanos(Math.max(endNs - System.nanoTime(), 0)));
                }
                producer = null;
                reader = null;
            }
            default -> throw new IllegalArgumentException("no such command: " + todo);
        }
    }

    /** The settings in force. */
    private Map<String, String> connect(JsonNode in) throws Exception {
        String role = in.get("role").asText();
        List<String> sides = role.equals("copier") ? List.of("consumer", "producer") : List.of(role);
        Map<String, Map<String, Object>> given = new HashMap<>(); // by side
        for (String side : sides) {
            String codec = side.equals("producer") ? "serializer" : "deserializer";
            String library = BYTES + codec.substring(0, 1).toUpperCase() + codec.substring(1);
            given.put(side, Out.fields("key." + codec, library, "value." + codec, library));
        }
        for (Map.Entry<String, JsonNode> property : in.get("properties").properties()) {
            List<String> takers = sides.stream().filter(side -> names(side).contains(property.getKey())).toList();
            if (takers.isEmpty()) { // Kafka would only log a warning
                throw new WrongProperty(property.getKey(), "kafka-clients has no such property for a " + role);
            }
            String value = property.getValue().asText();
            boolean isAssignor = property.getKey().equals("partition.assignment.strategy");
            String known = isAssignor ? ASSIGNORS.getOrDefault(value, value) : value;
            takers.forEach(side -> given.get(side).put(property.getKey(), known));
        }
        Map<String, String> effective = new HashMap<>();
        try {
            for (String side : sides) {
                Map<String, Object> own = given.get(side);
                switch (side) {
                    case "producer" -> {
                        new ProducerConfig(own).values().forEach((name, it) -> effective.put(name, String.valueOf(it)));
                        producer = new Producing(own, in.get("failed_codes"), time(in));
                    }
                    case "consumer" -> {
                        new ConsumerConfig(own).values().forEach((name, it) -> effective.put(name, String.valueOf(it)));
                        reader = new Reading(own);
                    }
                    default -> reader = Versions.sharer(own);
                }
            }
        } catch (Exception error) {
            throw error.getCause() instanceof ConfigException ? wrong(in, error.getCause()) : wrong(in, error);
        }
        return effective;
    }

    /** With the name of the property, if it is about one: that is in the text of the library's error only. */
    private static Exception wrong(JsonNode in, Throwable error) throws Exception {
        String found = "";
        for (Map.Entry<String, JsonNode> property : in.get("properties").properties()) {
            String name = property.getKey();
            found = String.valueOf(error.getMessage()).contains(name) && name.length() > found.length() ? name : found;
        }
        boolean isAboutOne = error instanceof ConfigException && !found.isEmpty();
        return isAboutOne ? new WrongProperty(found, error.getMessage()) : (Exception) error;
    }

    private static Set<String> names(String side) {
        return side.equals("producer") ? ProducerConfig.configNames() : ConsumerConfig.configNames();
    }

    static Map<TopicPartition, Long> places(JsonNode in) {
        Map<TopicPartition, Long> found = new HashMap<>();
        for (JsonNode each : in.path("partitions")) {
            TopicPartition place = new TopicPartition(each.get("topic").asText(), each.get("partition").asInt());
            found.put(place, each.path("offset").asLong());
        }
        return found;
    }

    static Duration time(JsonNode in) {
        return Duration.ofMillis(in.get("timeout_ms").asLong());
    }

    private static final class WrongProperty extends Exception {
        private final String name;

        WrongProperty(String name, String reason) {
            super(reason);
            this.name = name;
        }
    }
}
