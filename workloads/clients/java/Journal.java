import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** What a member says of itself: the lines of workloads/members/journal.py. Any thread may write. */
final class Journal {
    private final FileOutputStream file;

    Journal(String path) throws IOException {
        file = new FileOutputStream(path, true);
    }

    void delivered(List<ConsumerRecord<byte[], byte[]>> records, long polledNs) throws IOException {
        StringBuilder rows = new StringBuilder();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            byte[] value = record.value() == null ? new byte[0] : record.value();
            rows.append(rows.length() == 0 ? "" : ",").append('[').append(quoted(record.topic())).append(',').append(record.partition());
            rows.append(',').append(record.offset()).append(',').append(record.timestamp()).append(",\"");
            rows.append(Base64.getEncoder().encodeToString(value)).append("\"]");
        }
        write("delivered", "\"polled_ns\":" + polledNs + ",\"records\":[" + rows + "]");
    }

    void committed(Map<TopicPartition, OffsetAndMetadata> positions) throws IOException {
        List<String> rows = new ArrayList<>();
        positions.forEach((partition, at) -> rows.add("[" + quoted(partition.topic()) + "," + partition.partition() + "," + at.offset() + "]"));
        if (!rows.isEmpty()) {
            write("committed", "\"offsets\":[" + String.join(",", rows) + "]");
        }
    }

    /** For callbacks of the library, which may throw nothing that is checked. */
    void tell(String kind, String rest) {
        try {
            write(kind, rest);
        } catch (IOException error) {
            throw new KafkaException(error);
        }
    }

    /** One line, one write: a SIGKILL tears none. */
    synchronized void write(String kind, String rest) throws IOException {
        String line = "{\"mono_ns\":" + System.nanoTime() + ",\"kind\":\"" + kind + "\"" + (rest.isEmpty() ? "" : "," + rest) + "}\n";
        file.write(line.getBytes(StandardCharsets.UTF_8));
    }

    static String named(Collection<TopicPartition> partitions) {
        List<String> names = new ArrayList<>();
        partitions.forEach(partition -> names.add("[" + quoted(partition.topic()) + "," + partition.partition() + "]"));
        return "\"partitions\":[" + String.join(",", names) + "]";
    }

    static String quoted(String text) {
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
}
