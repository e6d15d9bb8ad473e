import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * What Kafka's assignor of share groups answers. Argument: a file with a JSON array of cases. A case has
 * `homogeneous`; `sizes`, the partitions of each topic; `assignable`, those that may be assigned; `members`, in their
 * order, each with `name`, `topics` and `present`. Prints a JSON array with the assignment of each case, by member.
 */
final class ShareAssignments {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode each : JSON.readTree(new File(arguments[0]))) {
            answers.add(answer(each));
        }
        System.out.println(JSON.writeValueAsString(answers));
    }

    private static ObjectNode answer(JsonNode given) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        for (JsonNode member : given.get("members")) {
            Set<Uuid> topics = new LinkedHashSet<>();
            member.get("topics").forEach(topic -> topics.add(Uuid.fromString(topic.asText())));
            members.put(member.get("name").asText(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), topics, new Assignment(partitions(member.get("present")))));
        }
        SubscriptionType type = given.get("homogeneous").asBoolean()
            ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        Map<Uuid, Set<Integer>> assignable = partitions(given.get("assignable"));
        GroupAssignment found = new SimpleAssignor().assign(
            new GroupSpecImpl(members, type, Map.of(), Optional.of(assignable)), describer(given.get("sizes")));
        ObjectNode answer = JSON.createObjectNode();
        found.members().forEach((name, assignment) -> {
            ObjectNode topics = answer.putObject(name);
            new TreeMap<>(assignment.partitions()).forEach((topic, indexes) -> {
                ArrayNode row = JSON.createArrayNode();
                new TreeSet<>(indexes).forEach(row::add);
                if (!row.isEmpty()) {
                    topics.set(topic.toString(), row);
                }
            });
        });
        return answer;
    }

    private static Map<Uuid, Set<Integer>> partitions(JsonNode given) {
        Map<Uuid, Set<Integer>> found = new HashMap<>();
        given.properties().forEach(topic -> {
            Set<Integer> indexes = new HashSet<>();
            topic.getValue().forEach(index -> indexes.add(index.asInt()));
            found.put(Uuid.fromString(topic.getKey()), indexes);
        });
        return found;
    }

    private static SubscribedTopicDescriber describer(JsonNode sizes) {
        return new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return sizes.get(topic.toString()).asInt();
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
    }
}
