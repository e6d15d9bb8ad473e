import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's Java clients as a driver, of any version from 2.1, the oldest that Apache Kafka 4 speaks with (KIP-896).
 * It is compiled against 2.8 for older ones. What only later versions have is looked up by name, or fails to link when
 * it is asked for.
 */
final class Clients {
    private static final long WAIT_S = 200;
    private static String bootstrap;
    private static AdminClient admin;
    private static final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    private static final Map<String, KafkaConsumer<String, String>> consumers = new HashMap<>();

    static void open(String address) {
        bootstrap = address;
    }

    static Object call(Json.Node in) throws Exception {
        String name = in.text("name");
        switch (in.text("call")) {
            case "producer_open": return openProducer(in);
            case "send": return send(in);
            case "init_transactions": producers.get(name).initTransactions(); return null;
            case "begin": producers.get(name).beginTransaction(); return null;
            case "commit": producers.get(name).commitTransaction(); return null;
            case "abort": producers.get(name).abortTransaction(); return null;
            case "send_offsets":
                sendOffsets(producers.get(name), consumers.get(in.text("consumer")),
                    Map.of(partition(in), new OffsetAndMetadata(in.number("offset"))), in.text("group"));
                return null;
            case "consumer_open": return openConsumer(in);
            case "assign":
                consumers.get(name).assign(List.of(partition(in)));
                consumers.get(name).seek(partition(in), in.number("offset"));
                return null;
            case "subscribe": consumers.get(name).subscribe(in.texts("topics")); return null;
            case "poll": return poll(in);
            case "commit_offset":
                consumers.get(name).commitSync(Map.of(partition(in), new OffsetAndMetadata(in.number("offset"))));
                return null;
            case "committed": {
                OffsetAndMetadata found = committed(consumers.get(name), partition(in));
                return found == null ? null : found.offset();
            }
            case "offset_for_time": {
                OffsetAndTimestamp found = consumers.get(name)
                    .offsetsForTimes(Map.of(partition(in), in.number("timestamp"))).get(partition(in));
                return found == null ? null : found.offset();
            }
            case "end_offsets": {
                List<TopicPartition> one = List.of(partition(in));
                return List.of(consumers.get(name).beginningOffsets(one).get(partition(in)),
                    consumers.get(name).endOffsets(one).get(partition(in)));
            }
            case "received_bytes": return receivedBytes(consumers.get(name));
            case "consumer_close": consumers.remove(name).close(); return null;
            case "reset": return reset();
            default: return administer(in);
        }
    }

    private static Object reset() {
        for (KafkaProducer<String, String> each : producers.values()) each.close(Duration.ZERO);
        for (KafkaConsumer<String, String> each : consumers.values()) each.close(Duration.ofSeconds(3));
        producers.clear();
        consumers.clear();
        return null;
    }

    private static TopicPartition partition(Json.Node in) {
        return new TopicPartition(in.text("topic"), (int) in.number("partition"));
    }

    private static Properties common() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("reconnect.backoff.ms", "50");
        properties.put("reconnect.backoff.max.ms", "500");
        return properties;
    }

    private static Object openProducer(Json.Node in) {
        Properties properties = common();
        Map<String, String> known = Map.of("acks", "acks", "codec", "compression.type", "linger_ms", "linger.ms",
            "idempotence", "enable.idempotence", "transactional_id", "transactional.id");
        Json.Node config = in.node("config");
        for (String key : config.keys()) properties.put(known.get(key), config.asText(key));
        if (!config.keys().contains("idempotence") && !config.keys().contains("transactional_id")) {
            properties.put("enable.idempotence", "false");
        }
        properties.put("max.request.size", "5000000");
        producers.put(in.text("name"), new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer()));
        return null;
    }

    private static Object send(Json.Node in) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        KafkaProducer<String, String> producer = producers.get(in.text("name"));
        for (Json.Node record : in.nodes("records")) {
            Long timestamp = record.has("timestamp") ? record.number("timestamp") : null;
            ProducerRecord<String, String> made = new ProducerRecord<>(in.text("topic"), (int) in.number("partition"),
                timestamp, record.text("key"), record.text("value"));
            for (List<String> header : record.pairs("headers")) {
                made.headers().add(header.get(0), header.get(1).getBytes(StandardCharsets.UTF_8));
            }
            sent.add(producer.send(made));
        }
        producer.flush();
        List<Long> offsets = new ArrayList<>();
        for (Future<RecordMetadata> each : sent) offsets.add(each.get(WAIT_S, TimeUnit.SECONDS).offset());
        return offsets;
    }

    private static void sendOffsets(KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer,
            Map<TopicPartition, OffsetAndMetadata> offsets, String group) throws Exception {
        try {
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        } catch (NoSuchMethodError before2_5) {
            later(producer, "sendOffsetsToTransaction", new Class<?>[] {Map.class, String.class}, offsets, group);
        }
    }

    private static OffsetAndMetadata committed(KafkaConsumer<String, String> consumer, TopicPartition partition)
            throws Exception {
        try {
            return consumer.committed(Set.of(partition)).get(partition);
        } catch (NoSuchMethodError before2_4) {
            return (OffsetAndMetadata) later(consumer, "committed", new Class<?>[] {TopicPartition.class}, partition);
        }
    }

    private static void need(String property) throws Driver.Unsupported {
        if (!ConsumerConfig.configNames().contains(property)) {
            throw new Driver.Unsupported("no consumer property " + property);
        }
    }

    private static Object openConsumer(Json.Node in) throws Driver.Unsupported {
        Json.Node config = in.node("config");
        Properties properties = common();
        if (config.has("group")) properties.put("group.id", config.text("group"));
        properties.put("auto.offset.reset", config.text("reset"));
        properties.put("enable.auto.commit", config.has("auto_commit") ? config.asText("auto_commit") : "false");
        properties.put("isolation.level", config.has("isolation") ? config.text("isolation") : "read_uncommitted");
        properties.put("fetch.max.wait.ms", "100");
        properties.put("metadata.max.age.ms", "2000");
        properties.put("heartbeat.interval.ms", "1000");
        if (config.has("protocol") && config.text("protocol").equals("consumer")) {
            need("group.protocol");
            properties.put("group.protocol", "consumer");
            properties.remove("heartbeat.interval.ms");
        } else if (config.has("assignor")) {
            Map<String, String> classes = Map.of("range", "RangeAssignor", "roundrobin", "RoundRobinAssignor",
                "cooperative-sticky", "CooperativeStickyAssignor");
            String assignor = "org.apache.kafka.clients.consumer." + classes.get(config.text("assignor"));
            try {
                Class.forName(assignor);
            } catch (ClassNotFoundException missing) {
                throw new Driver.Unsupported("no class " + assignor);
            }
            properties.put("partition.assignment.strategy", assignor);
        }
        if (config.has("rack")) {
            need("client.rack");
            properties.put("client.rack", config.text("rack"));
        }
        if (config.has("instance")) {
            need("group.instance.id");
            properties.put("group.instance.id", config.text("instance"));
            properties.put("session.timeout.ms", config.asText("session_timeout_ms"));
        }
        consumers.put(in.text("name"),
            new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer()));
        return null;
    }

    /** By broker: what it has sent to this consumer. */
    private static Map<String, Object> receivedBytes(KafkaConsumer<String, String> consumer) {
        Map<String, Object> found = new LinkedHashMap<>();
        consumer.metrics().forEach((name, metric) -> {
            if (name.group().equals("consumer-node-metrics") && name.name().equals("incoming-byte-total")) {
                found.put(name.tags().get("node-id").replace("node-", ""), metric.metricValue());
            }
        });
        return found;
    }

    private static Object poll(Json.Node in) {
        KafkaConsumer<String, String> consumer = consumers.get(in.text("name"));
        List<Object> records = new ArrayList<>();
        for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(in.number("timeout_ms")))) {
            Map<String, Object> record = new LinkedHashMap<>();
            record.put("partition", each.partition());
            record.put("offset", each.offset());
            record.put("key", each.key());
            record.put("value", each.value());
            List<Object> headers = new ArrayList<>();
            for (Header header : (Iterable<Header>) each.headers()) {
                headers.add(List.of(header.key(), new String(header.value(), StandardCharsets.UTF_8)));
            }
            record.put("headers", headers);
            record.put("timestamp", each.timestamp());
            record.put("timestamp_type", each.timestampType().id);
            records.add(record);
        }
        List<Integer> held = new ArrayList<>();
        for (TopicPartition each : consumer.assignment()) held.add(each.partition());
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("records", records);
        result.put("assignment", held);
        return result;
    }

    // -- administration

    private static <T> T get(Future<T> future) throws Exception {
        return future.get(WAIT_S, TimeUnit.SECONDS);
    }

    private static Object later(Object target, String method, Class<?>[] types, Object... values) throws Exception {
        try {
            Class<?> seen = target instanceof AdminClient ? AdminClient.class : target.getClass();
            Method found = seen.getMethod(method, types);
            found.setAccessible(true);
            return found.invoke(target, values);
        } catch (NoSuchMethodException error) {
            throw new Driver.Unsupported("no method " + target.getClass().getSimpleName() + "." + method);
        }
    }

    private static Object plain(Object target, String method) throws Exception {
        return later(target, method, new Class<?>[0]);
    }

    /** What a method gives, or in older versions a public field. */
    private static Object part(Object target, String name) throws Exception {
        try {
            return target.getClass().getField(name).get(target);
        } catch (NoSuchFieldException newer) {
            return plain(target, name);
        }
    }

    @SuppressWarnings("unchecked")
    private static <T> T wait(Object future) throws Exception {
        return (T) get((Future<Object>) future);
    }

    private static Object administer(Json.Node in) throws Exception {
        if (admin == null) {
            Properties properties = common();
            properties.put("default.api.timeout.ms", "60000");
            admin = AdminClient.create(properties);
        }
        String topic = in.text("topic");
        String group = in.text("group");
        switch (in.text("call")) {
            case "describe_cluster": {
                List<Integer> ids = new ArrayList<>();
                for (Node each : get(admin.describeCluster().nodes())) ids.add(each.id());
                return ids;
            }
            case "create_topic": {
                NewTopic made = new NewTopic(topic, (int) in.number("partitions"), (short) in.number("replication"));
                Map<String, String> config = new HashMap<>();
                for (String key : in.node("config").keys()) config.put(key, in.node("config").asText(key));
                get(admin.createTopics(List.of(made.configs(config))).all());
                return null;
            }
            case "delete_topic": get(admin.deleteTopics(List.of(topic)).all()); return null;
            case "list_topics": return new ArrayList<>(get(admin.listTopics().names()));
            case "describe_topic": return describeTopic(topic);
            case "create_partitions":
                get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo((int) in.number("total")))).all());
                return null;
            case "describe_configs": {
                ConfigResource.Type type =
                    in.text("kind").equals("topic") ? ConfigResource.Type.TOPIC : ConfigResource.Type.BROKER;
                ConfigResource resource = new ConfigResource(type, in.text("name"));
                Map<String, Object> found = new LinkedHashMap<>();
                for (ConfigEntry each : get(admin.describeConfigs(List.of(resource)).all()).get(resource).entries()) {
                    found.put(each.name(), each.value());
                }
                return found;
            }
            case "alter_configs": return alterConfigs(in);
            case "list_groups": {
                List<String> ids = new ArrayList<>();
                for (ConsumerGroupListing each : get(admin.listConsumerGroups().all())) ids.add(each.groupId());
                return ids;
            }
            case "describe_group": {
                ConsumerGroupDescription found =
                    get(admin.describeConsumerGroups(List.of(group)).describedGroups().get(group));
                Map<String, Object> result = new LinkedHashMap<>();
                result.put("state", found.state().toString());
                result.put("members", found.members().size());
                return result;
            }
            case "group_offsets": {
                OffsetAndMetadata found =
                    get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).get(partition(in));
                return found == null ? null : found.offset();
            }
            case "alter_group_offsets":
                get(admin.alterConsumerGroupOffsets(
                    group, Map.of(partition(in), new OffsetAndMetadata(in.number("offset")))).all());
                return null;
            case "delete_group_offsets":
                get(admin.deleteConsumerGroupOffsets(group, Set.of(partition(in))).all());
                return null;
            case "delete_group": get(admin.deleteConsumerGroups(List.of(group)).all()); return null;
            case "delete_records":
                get(admin.deleteRecords(
                    Map.of(partition(in), RecordsToDelete.beforeOffset(in.number("offset")))).all());
                return null;
            case "list_offsets": {
                Map<String, Object> found = new LinkedHashMap<>();
                found.put("earliest", get(admin.listOffsets(
                    Map.of(partition(in), OffsetSpec.earliest())).partitionResult(partition(in))).offset());
                found.put("latest", get(admin.listOffsets(
                    Map.of(partition(in), OffsetSpec.latest())).partitionResult(partition(in))).offset());
                return found;
            }
            case "elect_leaders":
                get(admin.electLeaders(ElectionType.PREFERRED, Set.of(partition(in))).all());
                return null;
            case "log_dirs": return logDirectories(topic);
            case "producers": {
                Object asked = later(admin, "describeProducers", new Class<?>[] {Collection.class}, List.of(partition(in)));
                Map<TopicPartition, Object> found = wait(plain(asked, "all"));
                return ((Collection<?>) plain(found.get(partition(in)), "activeProducers")).size();
            }
            case "transactions": {
                Map<String, Object> found = new LinkedHashMap<>();
                Collection<Object> listed = wait(plain(plain(admin, "listTransactions"), "all"));
                for (Object each : listed) {
                    found.put((String) plain(each, "transactionalId"), plain(each, "state").toString());
                }
                return found;
            }
            case "quorum": {
                Object info = wait(plain(plain(admin, "describeMetadataQuorum"), "quorumInfo"));
                List<Object> voters = new ArrayList<>();
                for (Object each : (Collection<?>) plain(info, "voters")) voters.add(plain(each, "replicaId"));
                Map<String, Object> result = new LinkedHashMap<>();
                result.put("leader", plain(info, "leaderId"));
                result.put("voters", voters);
                return result;
            }
            case "reassign": {
                List<Integer> wanted = new ArrayList<>();
                for (long each : in.numbers("replicas")) wanted.add((int) each);
                get(admin.alterPartitionReassignments(
                    Map.of(partition(in), Optional.of(new NewPartitionReassignment(wanted)))).all());
                return null;
            }
            case "acls": return get(admin.describeAcls(AclBindingFilter.ANY).values()).size();
            default: throw new Driver.Unsupported("the driver has no call " + in.text("call"));
        }
    }

    private static Object describeTopic(String topic) throws Exception {
        Object asked = admin.describeTopics(List.of(topic));
        Map<String, TopicDescription> found;
        try {
            found = wait(plain(asked, "allTopicNames"));
        } catch (Driver.Unsupported older) {
            found = wait(plain(asked, "all"));
        }
        List<Object> partitions = new ArrayList<>();
        for (TopicPartitionInfo each : found.get(topic).partitions()) {
            List<Integer> replicas = new ArrayList<>();
            for (Node node : each.replicas()) replicas.add(node.id());
            partitions.add(Map.of("replicas", replicas));
        }
        return partitions;
    }

    @SuppressWarnings("unchecked")
    private static Object alterConfigs(Json.Node in) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, in.text("topic"));
        List<ConfigEntry> entries = new ArrayList<>();
        for (String key : in.node("config").keys()) entries.add(new ConfigEntry(key, in.node("config").asText(key)));
        if (!in.asText("incremental").equals("true")) {
            Object asked = later(admin, "alterConfigs", new Class<?>[] {Map.class}, Map.of(resource, new Config(entries)));
            wait(plain(asked, "all"));
            return null;
        }
        Collection<AlterConfigOp> changes = new ArrayList<>();
        for (ConfigEntry each : entries) changes.add(new AlterConfigOp(each, AlterConfigOp.OpType.SET));
        get(admin.incrementalAlterConfigs(Map.of(resource, changes)).all());
        return null;
    }

    private static Object logDirectories(String topic) throws Exception {
        List<Integer> brokers = new ArrayList<>();
        for (Node each : get(admin.describeCluster().nodes())) brokers.add(each.id());
        List<Object> sizes = new ArrayList<>();
        Object asked = admin.describeLogDirs(brokers);
        Map<Integer, Map<String, Object>> found;
        try {
            found = wait(plain(asked, "allDescriptions"));
        } catch (Driver.Unsupported before2_7) {
            found = wait(plain(asked, "all"));
        }
        for (Map<String, Object> directories : found.values()) {
            for (Object directory : directories.values()) {
                Map<?, ?> replicas = (Map<?, ?>) part(directory, "replicaInfos");
                for (Map.Entry<?, ?> each : replicas.entrySet()) {
                    if (((TopicPartition) each.getKey()).topic().equals(topic)) sizes.add(part(each.getValue(), "size"));
                }
            }
        }
        return sizes;
    }
}
