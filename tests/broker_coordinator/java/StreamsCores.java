import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.FencedMemberEpochException;
import org.apache.kafka.common.errors.StreamsInvalidTopologyException;
import org.apache.kafka.common.message.StreamsGroupHeartbeatResponseData;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue.CopartitionGroup;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue.Subtopology;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue.TopicConfig;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue.TopicInfo;
import org.apache.kafka.coordinator.group.streams.CurrentAssignmentBuilder;
import org.apache.kafka.coordinator.group.streams.MemberState;
import org.apache.kafka.coordinator.group.streams.StreamsGroup;
import org.apache.kafka.coordinator.group.streams.StreamsGroupMember;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.TasksTuple;
import org.apache.kafka.coordinator.group.streams.TasksTupleWithEpochs;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TaskAssignorException;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredInternalTopic;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredSubtopology;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.coordinator.group.streams.topics.EndpointToPartitionsManager;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.apache.kafka.timeline.SnapshotRegistry;

/** A case as JSON on each line of stdin: what the classes of Apache Kafka's streams groups make of it. */
public class StreamsCores {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode given = MAPPER.readTree(line);
            ObjectNode found = MAPPER.createObjectNode();
            try {
                switch (given.get("kind").asText()) {
                    case "assign" -> assign(given, found);
                    case "configure" -> configure(given, found);
                    default -> reconcile(given, found);
                }
            } catch (TaskAssignorException | StreamsInvalidTopologyException | FencedMemberEpochException error) {
                found.removeAll();
                found.put("error", error.getMessage());
            } catch (RuntimeException error) {
                found.removeAll();
                found.put("error", "unexpected");
                System.err.println(error);
            }
            System.out.println(MAPPER.writeValueAsString(found));
        }
    }

    private static void assign(JsonNode given, ObjectNode found) {
        Map<String, AssignmentMemberSpec> members = new HashMap<>();
        for (JsonNode each : given.get("members")) {
            TasksTuple present = tasks(each.get("present"));
            members.put(each.get("id").asText(), new AssignmentMemberSpec(
                Optional.empty(), Optional.empty(), present.activeTasks(), present.standbyTasks(),
                present.warmupTasks(), each.get("process").asText(), Map.of(), Map.of(), Map.of()));
        }
        Map<String, JsonNode> subtopologies = new TreeMap<>();
        given.get("subtopologies").forEach(each -> subtopologies.put(each.get("id").asText(), each));
        TopologyDescriber topology = new TopologyDescriber() {
            public List<String> subtopologies() {
                return new ArrayList<>(subtopologies.keySet());
            }

            public int maxNumInputPartitions(String id) {
                return subtopologies.get(id).get("tasks").asInt();
            }

            public boolean isStateful(String id) {
                return subtopologies.get(id).get("stateful").asBoolean();
            }
        };
        Map<String, String> settings = Map.of("num.standby.replicas", given.get("replicas").asText());
        Map<String, MemberAssignment> targets =
            new StickyTaskAssignor().assign(new GroupSpecImpl(members, settings), topology).members();
        new TreeMap<>(targets).forEach((id, target) -> {
            ObjectNode node = found.putObject(id);
            put(node.putObject("active"), target.activeTasks());
            put(node.putObject("standby"), target.standbyTasks());
            put(node.putObject("warmup"), target.warmupTasks());
        });
    }

    private static void configure(JsonNode given, ObjectNode found) {
        Map<String, Integer> topics = new HashMap<>();
        given.get("topics").fields().forEachRemaining(each -> topics.put(each.getKey(), each.getValue().asInt()));
        CoordinatorMetadataImage image = image(topics);
        StreamsTopology topology = StreamsTopology.fromRecord(topology(given.get("topology")));
        LogContext logs = new LogContext();
        ConfiguredTopology configured = InternalTopicManager.configureTopics(
            logs.logger(StreamsCores.class), "group", "member", 7, topology, image, Time.SYSTEM);
        configured.topicConfigurationException().ifPresent(problem -> {
            found.putArray("problem").add((int) problem.status().code()).add(problem.getMessage());
        });
        found.put("epoch", configured.topologyEpoch());
        ArrayNode create = found.putArray("create");
        configured.internalTopicsToBeCreated().forEach((name, topic) -> {
            ArrayNode row = create.addArray().add(name).add(topic.numPartitions()).add((int) topic.replicationFactor());
            ObjectNode configs = row.addObject();
            topic.configs().forEach(config -> configs.put(config.name(), config.value()));
        });
        if (configured.subtopologies().isEmpty()) {
            return;
        }
        ArrayNode subtopologies = found.putArray("subtopologies");
        configured.subtopologies().get().forEach((id, each) -> subtopology(subtopologies.addObject(), id, each));
        if (given.get("active").isNull() || !configured.isReady()) {
            return;
        }
        StreamsGroup group = new StreamsGroup(logs, new SnapshotRegistry(logs), "group");
        group.setConfiguredTopology(configured);
        StreamsGroupMember member = StreamsGroupMember.Builder.withDefaults("member")
            .setAssignedTasks(held(given.get("active"))).build();
        StreamsGroupHeartbeatResponseData.EndpointToPartitions partitions =
            EndpointToPartitionsManager.endpointToPartitions(
                member, new StreamsGroupHeartbeatResponseData.Endpoint(), group, image);
        ArrayNode endpoint = found.putArray("endpoint");
        partitions.activePartitions().forEach(each -> {
            ArrayNode indexes = endpoint.addArray().add(each.topic()).addArray();
            new TreeSet<>(each.partitions()).forEach(indexes::add);
        });
    }

    private static void subtopology(ObjectNode node, String id, ConfiguredSubtopology each) {
        node.put("id", id);
        node.put("tasks", each.numberOfTasks());
        ArrayNode sources = node.putArray("sources");
        new TreeSet<>(each.sourceTopics()).forEach(sources::add);
        ArrayNode sinks = node.putArray("sinks");
        new TreeSet<>(each.repartitionSinkTopics()).forEach(sinks::add);
        internal(node.putArray("repartition"), each.repartitionSourceTopics());
        internal(node.putArray("changelog"), each.stateChangelogTopics());
    }

    private static void internal(ArrayNode rows, Map<String, ConfiguredInternalTopic> topics) {
        new TreeMap<>(topics).forEach((name, topic) -> {
            ArrayNode row = rows.addArray().add(topic.name()).add(topic.numberOfPartitions());
            row.add((int) topic.replicationFactor().orElse((short) 0));
            ObjectNode configs = row.addObject();
            topic.topicConfigs().forEach(configs::put);
        });
    }

    private static void reconcile(JsonNode given, ObjectNode found) {
        StreamsGroupMember member = StreamsGroupMember.Builder.withDefaults("member")
            .setMemberEpoch(given.get("epoch").asInt())
            .setPreviousMemberEpoch(given.get("previous").asInt())
            .setState(MemberState.fromValue((byte) given.get("state").asInt()))
            .setProcessId(given.get("process").asText())
            .setAssignedTasks(held(given.get("assigned")))
            .setTasksPendingRevocation(held(given.get("pending")))
            .build();
        JsonNode holders = given.get("holders");
        StreamsGroupMember after = new CurrentAssignmentBuilder(member)
            .withTargetAssignment(given.get("target_epoch").asInt(), tasks(given.get("target")))
            .withCurrentActiveTaskProcessId((id, partition) ->
                holders.get("active").path(id + "_" + partition).asText(null))
            .withCurrentStandbyTaskProcessIds(processes(holders.get("standby")))
            .withCurrentWarmupTaskProcessIds(processes(holders.get("warmup")))
            .withOwnedAssignment(given.get("owned").isNull() ? null : tasks(given.get("owned")))
            .build();
        found.put("state", (int) after.state().value());
        found.put("epoch", after.memberEpoch());
        found.put("previous", after.previousMemberEpoch());
        put(found.putObject("assigned"), after.assignedTasks());
        put(found.putObject("pending"), after.tasksPendingRevocation());
    }

    private static BiFunction<String, Integer, Set<String>> processes(JsonNode node) {
        return (id, partition) -> {
            Set<String> found = new HashSet<>();
            node.path(id + "_" + partition).forEach(each -> found.add(each.asText()));
            return found;
        };
    }

    // -- reading -----------------------------------------------------------------------------------------------------

    private static StreamsGroupTopologyValue topology(JsonNode node) {
        return new StreamsGroupTopologyValue()
            .setEpoch(node.get("epoch").asInt())
            .setSubtopologies(list(node.get("subtopologies"), each -> new Subtopology()
                .setSubtopologyId(each.get("id").asText())
                .setSourceTopics(list(each.get("sources"), JsonNode::asText))
                .setSourceTopicRegex(list(each.get("regexes"), JsonNode::asText))
                .setStateChangelogTopics(list(each.get("changelog"), StreamsCores::topicInfo))
                .setRepartitionSinkTopics(list(each.get("sinks"), JsonNode::asText))
                .setRepartitionSourceTopics(list(each.get("repartition"), StreamsCores::topicInfo))
                .setCopartitionGroups(list(each.get("copartition"), group -> new CopartitionGroup()
                    .setSourceTopics(list(group.get(0), index -> (short) index.asInt()))
                    .setSourceTopicRegex(list(group.get(1), index -> (short) index.asInt()))
                    .setRepartitionSourceTopics(list(group.get(2), index -> (short) index.asInt()))))));
    }

    private static TopicInfo topicInfo(JsonNode row) {
        return new TopicInfo()
            .setName(row.get(0).asText())
            .setPartitions(row.get(1).asInt())
            .setReplicationFactor((short) row.get(2).asInt())
            .setTopicConfigs(list(row.get(3), pair ->
                new TopicConfig().setKey(pair.get(0).asText()).setValue(pair.get(1).asText())));
    }

    private static TasksTuple tasks(JsonNode node) {
        return new TasksTuple(sets(node.get("active")), sets(node.get("standby")), sets(node.get("warmup")));
    }

    private static TasksTupleWithEpochs held(JsonNode node) {
        Map<String, Map<Integer, Integer>> active = new HashMap<>();
        node.get("active").fields().forEachRemaining(each -> {
            Map<Integer, Integer> epochs = active.computeIfAbsent(each.getKey(), id -> new HashMap<>());
            each.getValue().forEach(pair -> epochs.put(pair.get(0).asInt(), pair.get(1).asInt()));
        });
        return new TasksTupleWithEpochs(active, sets(node.get("standby")), sets(node.get("warmup")));
    }

    private static Map<String, Set<Integer>> sets(JsonNode node) {
        Map<String, Set<Integer>> found = new HashMap<>();
        node.fields().forEachRemaining(each ->
            found.put(each.getKey(), new HashSet<>(list(each.getValue(), JsonNode::asInt))));
        return found;
    }

    private static <T> List<T> list(JsonNode node, Function<JsonNode, T> read) {
        List<T> found = new ArrayList<>();
        node.forEach(each -> found.add(read.apply(each)));
        return found;
    }

    private static CoordinatorMetadataImage image(Map<String, Integer> topics) {
        return new CoordinatorMetadataImage() {
            public Set<Uuid> topicIds() {
                throw new UnsupportedOperationException();
            }

            public Set<String> topicNames() {
                return topics.keySet();
            }

            public Optional<TopicMetadata> topicMetadata(String name) {
                return Optional.ofNullable(topics.get(name)).map(count -> metadata(name, count));
            }

            public Optional<TopicMetadata> topicMetadata(Uuid id) {
                throw new UnsupportedOperationException();
            }

            public CoordinatorMetadataDelta emptyDelta() {
                throw new UnsupportedOperationException();
            }

            public long version() {
                return 1;
            }

            public boolean isEmpty() {
                return topics.isEmpty();
            }
        };
    }

    private static CoordinatorMetadataImage.TopicMetadata metadata(String name, int count) {
        return new CoordinatorMetadataImage.TopicMetadata() {
            public String name() {
                return name;
            }

            public Uuid id() {
                return Uuid.ZERO_UUID;
            }

            public int partitionCount() {
                return count;
            }

            public List<String> partitionRacks(int partition) {
                return List.of();
            }
        };
    }

    // -- writing -----------------------------------------------------------------------------------------------------

    private static void put(ObjectNode node, Map<String, Set<Integer>> tasks) {
        new TreeMap<>(tasks).forEach((id, partitions) -> {
            ArrayNode indexes = node.putArray(id);
            new TreeSet<>(partitions).forEach(indexes::add);
        });
    }

    private static void put(ObjectNode node, TasksTupleWithEpochs tasks) {
        ObjectNode active = node.putObject("active");
        new TreeMap<>(tasks.activeTasksWithEpochs()).forEach((id, epochs) -> {
            ArrayNode pairs = active.putArray(id);
            new TreeMap<>(epochs).forEach((partition, epoch) -> pairs.addArray().add(partition).add(epoch));
        });
        put(node.putObject("standby"), tasks.standbyTasks());
        put(node.putObject("warmup"), tasks.warmupTasks());
    }
}
