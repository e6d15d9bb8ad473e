import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.File;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

/**
 * What Kafka's share coordinator makes of two lists of batches. Argument: a file with a JSON array of cases
 * `[known, news, start offset]`; a batch is `[first, last, state, delivery count]`. Prints a JSON array of the results.
 */
final class CombinedBatches {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode each : JSON.readTree(new File(arguments[0]))) {
            ArrayNode answer = answers.addArray();
            for (PersisterStateBatch batch : new PersisterStateBatchCombiner(
                batches(each.get(0)), batches(each.get(1)), each.get(2).asLong()).combineStateBatches()) {
                answer.addArray().add(batch.firstOffset()).add(batch.lastOffset())
                    .add(batch.deliveryState()).add(batch.deliveryCount());
            }
        }
        System.out.println(JSON.writeValueAsString(answers));
    }

    private static List<PersisterStateBatch> batches(JsonNode given) {
        List<PersisterStateBatch> found = new ArrayList<>();
        given.forEach(each -> found.add(new PersisterStateBatch(
            each.get(0).asLong(), each.get(1).asLong(), (byte) each.get(2).asInt(), (short) each.get(3).asInt())));
        return found;
    }
}
