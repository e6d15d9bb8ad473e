// Mode `load`: one producer or one consumer, driven through its standard streams.
//
// A frame is: length of the rest (int32), kind (byte), contents. All numbers are little endian. Frames in:
//   O  open: mode (byte p|c), then strings: start (earliest|latest), the codes ("17,21") after which a send certainly is
//      not in the log (workloads/clients/fates.py), number of properties, name, value, name, value ..., topics
//   A  connect: strings topic, partition, topic, partition ... that a consumer reads; none: subscribe in its group.id
//   S  send: written_ns (int64), count (int32), per record: seq (int64), topic number (int32), key length (int32, -1 none),
//      key, value length (int32), value. A count of -1: no records, but a step of a transaction for the thread that sends:
//      number (int64), step (int32; 1 begin, 2 commit, 3 abort), timeout in ms (int32)
//   C  close: timeout in ms (int32); the end of the input means the same with 0
// Frames out:
//   V  valid: the client can be made with these properties         K  connected: strings name, value ... in force
//   E  error: strings kind (property|failure|unknown), name, text; for unknown: the names that there are
//   D  done sends: rows of 48 bytes: seq, sent_ns, acked_ns, offset, append_ms (int64), partition (int32), error,
//      status (int16; 0 acked, 1 failed, 2 unknown). A seq below 0 is no record: -seq - 1 is the number of a step that is
//      done (0), that ended with an abort (3), or of which nobody knows (2), after the outcomes of all records before it
//   R  polled: polled_ns (int64), count (int32), per record: topic number, partition (int32), offset, timestamp (int64),
//      value length (int32), value
//   M  metrics: strings name, value ...                            F  finished: nothing comes after it
//
// Times are System.nanoTime(), which on Linux is CLOCK_MONOTONIC, the clock of the load generator on the same host.

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigException;

final class Load {
    private Load() {
    }

    static void run() throws Exception {
        Frames frames = new Frames();
        ByteBuffer open = frames.read();
        if (open == null || open.get() != 'O') {
            return;
        }
        boolean isProducer = open.get() == 'p';
        List<String> words = Frames.strings(open);
        boolean fromStart = words.get(0).equals("earliest");
        Set<Integer> failedCodes = new HashSet<>();
        for (String code : words.get(1).split(",")) {
            failedCodes.add(Integer.parseInt(code));
        }
        int end = 3 + 2 * Integer.parseInt(words.get(2));
        Map<String, Object> properties = new HashMap<>();
        for (int i = 3; i < end; i += 2) {
            properties.put(words.get(i), words.get(i + 1));
        }
        List<String> topics = words.subList(end, words.size());
        try {
            if (!checkNames(frames, properties, isProducer)) {
                return;
            }
            if (isProducer) {
                new LoadProducer(frames, topics, failedCodes).run(properties);
            } else {
                new LoadConsumer(frames, topics, fromStart).run(properties);
            }
        } catch (Exception error) {
            Throwable cause = error.getCause() instanceof ConfigException ? error.getCause() : error;
            String kind = cause instanceof ConfigException ? "property" : "failure";
            String message = String.valueOf(cause.getMessage());
            frames.writeWords('E', List.of(kind, propertyIn(properties, message), message));
        }
    }

    // Kafka only logs a warning about a property that it does not know.
    private static boolean checkNames(Frames frames, Map<String, Object> properties, boolean isProducer) throws IOException {
        Set<String> known = isProducer ? ProducerConfig.configNames() : ConsumerConfig.configNames();
        for (String name : properties.keySet()) {
            if (!known.contains(name)) {
                List<String> words = new ArrayList<>(List.of("unknown", name));
                words.addAll(known);
                frames.writeWords('E', words);
                return false;
            }
        }
        return true;
    }

    private static String propertyIn(Map<String, Object> properties, String message) {
        String found = "";
        for (String name : properties.keySet()) {
            if (message.contains(name) && name.length() > found.length()) {
                found = name;
            }
        }
        return found;
    }

    /** Name, value, name, value ... in force. */
    static List<String> settings(Map<String, ?> values) {
        List<String> words = new ArrayList<>();
        for (Map.Entry<String, ?> entry : new TreeMap<>(values).entrySet()) {
            words.add(entry.getKey());
            Object value = entry.getValue();
            words.add(value instanceof Class ? ((Class<?>) value).getName() : String.valueOf(value));
        }
        return words;
    }
}
