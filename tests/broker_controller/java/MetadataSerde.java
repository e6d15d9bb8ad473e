import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** A metadata record in hex on each line of stdin: how Apache Kafka reads it, and what it writes for the same. */
public class MetadataSerde {
    public static void main(String[] arguments) throws Exception {
        MetadataRecordSerde serde = MetadataRecordSerde.INSTANCE;
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            byte[] bytes = HexFormat.of().parseHex(line.trim());
            ApiMessageAndVersion read =
                serde.read(new ByteBufferAccessor(java.nio.ByteBuffer.wrap(bytes)), bytes.length);
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBufferAccessor out =
                new ByteBufferAccessor(java.nio.ByteBuffer.allocate(serde.recordSize(read, cache)));
            serde.write(read, cache, out);
            ObjectNode node = mapper.createObjectNode();
            node.put("name", read.message().getClass().getSimpleName());
            node.put("version", read.version());
            node.set("data", MetadataJsonConverters.writeJson(read.message(), read.version()));
            node.put("bytes", HexFormat.of().formatHex(out.buffer().array()));
            System.out.println(mapper.writeValueAsString(node));
        }
    }
}
