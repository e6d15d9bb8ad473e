"""Tools that administer: topics, settings, groups, offsets, leaders, transactions, quorum, features."""

from __future__ import annotations

import json
import re

from broker.door.clients import Producer
from tests.compatibility.tools.toolbox import Tool, Toolbox, ToolFailure
from tests.patience import wait_until

CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = "consumer.group.ConsumerGroupCommand"


def _topics(box: Toolbox) -> None:
    topic = box.world.name("made")
    box.run("TopicCommand", "--create", "--topic", topic, "--partitions", 2, "--config", "cleanup.policy=compact")
    box.world.wait_until_all_know(topic)
    box.run("TopicCommand", "--alter", "--topic", topic, "--partitions", 3)
    box.world.wait_until_all_know(topic, partitions=3)
    found = box.until(lambda found: "PartitionCount: 3" in found, "TopicCommand", "--describe", "--topic", topic)
    assert "cleanup.policy=compact" in found, found
    assert topic in box.run("TopicCommand", "--list").split()
    box.run("TopicCommand", "--delete", "--topic", topic)
    wait_until(lambda: topic not in box.world.topics(), "the topic's end")


def _configs(box: Toolbox) -> None:
    of_topic = ("--entity-type", "topics", "--entity-name", box.world.topic())
    box.run(CONFIGS, *of_topic, "--alter", "--add-config", "retention.ms=777000,segment.bytes=2048000")
    # As Apache Kafka: log.retention.ms has no default of its own, log.segment.bytes has one.
    expected = "synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=777000}"
    found = box.until(lambda found: expected in found, CONFIGS, *of_topic, "--describe")
    assert "DEFAULT_CONFIG:log.segment.bytes=1073741824" in found, found
    box.run(CONFIGS, *of_topic, "--alter", "--delete-config", "retention.ms")
    box.until(lambda found: "retention.ms" not in found, CONFIGS, *of_topic, "--describe")
    every_broker = ("--entity-type", "brokers", "--entity-default")
    box.run(CONFIGS, *every_broker, "--alter", "--add-config", "max.connections=500")
    box.until(lambda found: "max.connections=500" in found, CONFIGS, *every_broker, "--describe")
    one = box.run(CONFIGS, "--entity-type", "brokers", "--entity-name", 1, "--describe", "--all")
    assert "node.id=1" in one, one


def _consumer_groups(box: Toolbox) -> None:
    topic, group = box.topic_of(20), box.world.name("g")
    box.run("VerifiableConsumer", "--topic", topic, "--group-id", group, "--max-messages", 20)
    found = box.run(GROUPS, "--describe", "--group", group)
    assert re.search(rf"{group}\s+{topic}\s+0\s+20\s+20\s+0", found), found
    assert group in box.run(GROUPS, "--list").split()
    assert "Empty" in box.run(GROUPS, "--describe", "--group", group, "--state")
    box.run(GROUPS, "--reset-offsets", "--group", group, "--topic", topic, "--to-offset", 5, "--execute")
    found = box.run(GROUPS, "--describe", "--group", group)
    assert re.search(rf"{topic}\s+0\s+5\s+20\s+15", found), found
    box.run(GROUPS, "--delete-offsets", "--group", group, "--topic", topic)
    box.run(GROUPS, "--delete", "--group", group)
    assert group not in box.run(GROUPS, "--list").split()


def _groups(box: Toolbox) -> None:
    topic, group, newer = box.topic_of(1), box.world.name("g"), box.world.name("g")
    box.run("VerifiableConsumer", "--topic", topic, "--group-id", group, "--max-messages", 1)
    box.run(
        "VerifiableConsumer", "--topic", topic, "--group-id", newer, "--max-messages", 1, "--group-protocol", "consumer"
    )
    found = box.run("GroupsCommand", "--list")
    assert re.search(rf"{group}\s+Classic\s+consumer", found), found
    assert re.search(rf"{newer}\s+Consumer\s+consumer", found), found


def _get_offsets(box: Toolbox) -> None:
    topic = box.topic_of(7)
    offsets = {
        time: int(box.run("GetOffsetShell", "--topic", topic, "--time", time).strip().rpartition(":")[2])
        for time in ("latest", "earliest", "earliest-local", "max-timestamp")
    }
    assert offsets.pop("max-timestamp") in range(7), offsets
    assert offsets == {"latest": 7, "earliest": 0, "earliest-local": 0}


def _delete_records(box: Toolbox) -> None:
    topic = box.topic_of(9)
    what = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}]}
    found = box.run("DeleteRecordsCommand", "--offset-json-file", box.file("delete.json", json.dumps(what)))
    assert "low_watermark: 4" in found, found
    assert box.world.log_start(topic) == 4


def _leader_election(box: Toolbox) -> None:
    topic = box.world.topic()
    found = box.run("LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", 0)
    assert f"Valid replica already elected for partitions {topic}-0" in found, found


def _log_dirs(box: Toolbox) -> None:
    topic = box.topic_of(3)
    described = json.loads(box.run("LogDirsCommand", "--describe", "--topic-list", topic).splitlines()[-1])
    assert {each["broker"] for each in described["brokers"]} == set(box.world.cluster.ids)
    sizes = [part["size"] for each in described["brokers"] for part in each["logDirs"][0]["partitions"]]
    assert len(sizes) == 3, sizes
    assert min(sizes) > 0, sizes


def _quorum(box: Toolbox) -> None:
    def names_the_leader(found: str) -> bool:
        return f"LeaderId:               {box.world.cluster.controller()}" in found

    def has_roles(found: str) -> bool:
        roles = sorted(line.split()[-1] for line in found.splitlines()[1:])
        return roles == ["Follower", "Follower", "Leader"]

    box.until(names_the_leader, "MetadataQuorumCommand", "describe", "--status")
    box.until(has_roles, "MetadataQuorumCommand", "describe", "--replication")


def _transactions(box: Toolbox) -> None:
    topic, name, tool = box.world.topic(), box.world.name("tx"), "TransactionsCommand"
    box.run(
        "ProducerPerformance", "--topic", topic, "--num-records", 20, "--record-size", 100, "--throughput", 200,
        "--transactional-id", name, "--transaction-duration-ms", 50,
    )  # fmt: skip
    assert name in box.run(tool, "list").split()
    # The commit is answered before its markers are written.
    is_complete = re.compile(rf"{name}\s.*CompleteCommit").search
    box.until(is_complete, tool, "describe", "--transactional-id", name)
    assert "ProducerId" in box.run(tool, "describe-producers", "--topic", topic, "--partition", 0)
    assert box.run(tool, "find-hanging", "--broker-id", 1).splitlines()[1:] == []


def _abort(box: Toolbox) -> None:
    topic, tool = box.world.topic(), "TransactionsCommand"
    name = box.world.name("tx")
    with Producer({"bootstrap.servers": box.world.bootstrap, "transactional.id": name}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0)
        producer.flush()
        box.run(tool, "abort", "--topic", topic, "--partition", 0, "--start-offset", 0)
        assert [header.is_control for header in box.world.batches(topic)] == [False, True], "the marker"
        box.run(tool, "forceTerminateTransaction", "--transactionalId", name)
        is_over = re.compile(rf"{name}\s.*(CompleteAbort|Empty)").search
        box.until(is_over, tool, "describe", "--transactional-id", name)


def _api_versions(box: Toolbox) -> None:
    found = box.run("BrokerApiVersionsCommand")
    assert found.count("Produce(0): 0 to 13 [usable: 13]") == len(box.world.cluster.ids), found
    assert "ERROR" not in found, found


def _features(box: Toolbox) -> None:
    found = box.run("FeatureCommand", "describe")
    for name, level in (("group.version", "1"), ("metadata.version", "4.3-IV0"), ("transaction.version", "2")):
        assert re.search(rf"Feature: {name}\s.*FinalizedVersionLevel: {level}\s", found), found


def _cluster(box: Toolbox) -> None:
    found = box.run("ClusterTool", command="cluster-id")
    assert re.search(r"Cluster ID: \S+", found), found
    found = box.run("ClusterTool", command="list-endpoints")
    assert [line.split()[0] for line in found.splitlines()[1:]] == [str(each) for each in box.world.cluster.ids], found


def _application_reset(box: Toolbox) -> None:
    topic, group = box.topic_of(5), box.world.name("application")
    box.run("VerifiableConsumer", "--topic", topic, "--group-id", group, "--max-messages", 5)
    box.run("StreamsResetter", "--application-id", group, "--input-topics", topic, "--to-earliest")
    found = box.run(GROUPS, "--describe", "--group", group)
    assert re.search(rf"{topic}\s+0\s+0\s+5\s+5", found), found


def _reassign(box: Toolbox) -> None:
    topic = box.topic_of(5)
    replicas = list(box.world.partition(topic).replica_nodes)[::-1][:2]
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}
    given = ("--reassignment-json-file", box.file("plan.json", json.dumps(plan)))
    tool = "reassign.ReassignPartitionsCommand"
    box.run(tool, *given, "--execute")
    wait_until(lambda: list(box.world.partition(topic).replica_nodes) == replicas, "the new replicas")
    box.until(lambda found: "is completed" in found, tool, *given, "--verify")
    box.until(lambda found: "No partition reassignments found." in found, tool, "--list")


def _acls(box: Toolbox) -> None:
    """These brokers have no authorizer, and say so in Apache Kafka's words."""
    try:
        printed = box.run("AclCommand", "--list")
    except ToolFailure as failure:
        if "SecurityDisabledException: No Authorizer is configured" not in str(failure):
            raise
    else:
        raise ToolFailure(f"listed without an authorizer: {printed[-200:]}")


def _share_groups(box: Toolbox) -> None:
    topic, group, tool = box.topic_of(20), box.world.name("share"), "consumer.group.ShareGroupCommand"
    of_group = ("--entity-type", "groups", "--entity-name", group)
    box.run(CONFIGS, *of_group, "--alter", "--add-config", "share.auto.offset.reset=earliest")
    box.world.wait_until_all_have_group_setting(group, "share.auto.offset.reset", "earliest")

    def read(count: int) -> list[int]:
        given = ("--topic", topic, "--group", group, "--max-messages", count)
        lines = box.run("consumer.ConsoleShareConsumer", *given).splitlines()
        return sorted(int(line) for line in lines if line.isdigit())  # it ends with a sentence

    def start_and_lag() -> tuple[str, str]:
        described = box.run(tool, "--describe", "--group", group, "--offsets")
        found = re.search(rf"{group}\s+{topic}\s+0\s+(\d+)\s+(\d+)", described)
        assert found, described
        return found[1], found[2]

    def reset(to: str) -> None:
        box.run(tool, "--reset-offsets", "--group", group, "--topic", topic, to, "--execute")

    assert read(20) == list(range(20))
    assert re.search(rf"{group}\s+Empty", box.run(tool, "--list", "--state")), "the group, without members"
    # What is kept is the start offset of before the last write. The lag counts what is done behind it.
    wait_until(lambda: start_and_lag()[1] == "0", "no lag")
    reset("--to-latest")
    assert start_and_lag() == ("20", "0")
    reset("--to-earliest")
    assert start_and_lag() == ("0", "20")
    assert read(20) == list(range(20)), "all records once more"
    assert "Successful" in box.run(tool, "--delete-offsets", "--group", group, "--topic", topic)
    box.run(tool, "--delete", "--group", group)
    assert group not in box.run(tool, "--list").split()


def _feature_changes(box: Toolbox) -> None:
    refusal = ""
    try:
        box.run("FeatureCommand", "upgrade", "--feature", "group.version=77")
    except ToolFailure as error:
        refusal = str(error)
    assert "group.version" in refusal, refusal or "level 77 was taken"


TOOLS = (
    Tool(name="kafka-topics", asked="create, alter, describe, list, delete", attempt=_topics),
    Tool(name="kafka-configs", asked="settings of topics and brokers: alter, describe", attempt=_configs),
    Tool(
        name="kafka-consumer-groups", asked="describe, list, reset offsets, delete offsets and groups",
        attempt=_consumer_groups,
    ),
    Tool(name="kafka-groups", asked="list groups of both protocols", attempt=_groups),
    Tool(name="kafka-get-offsets", asked="latest, earliest, local, of the largest timestamp", attempt=_get_offsets),
    Tool(name="kafka-delete-records", asked="records before an offset", attempt=_delete_records),
    Tool(name="kafka-leader-election", asked="preferred, where it leads already", attempt=_leader_election),
    Tool(name="kafka-log-dirs", asked="sizes on all brokers", attempt=_log_dirs),
    Tool(name="kafka-metadata-quorum", asked="describe status and replication", attempt=_quorum),
    Tool(
        name="kafka-transactions", asked="list, describe, describe producers, find hanging ones", attempt=_transactions
    ),
    Tool(name="kafka-transactions (abort)", asked="abort an open one, end it at its coordinator", attempt=_abort),
    Tool(name="kafka-broker-api-versions", asked="of every broker", attempt=_api_versions),
    Tool(name="kafka-features", asked="describe", attempt=_features),
    Tool(name="kafka-features (upgrade)", asked="to a level that does not exist", attempt=_feature_changes),
    Tool(name="kafka-cluster", asked="cluster id, endpoints", attempt=_cluster),
    Tool(name="kafka-streams-application-reset", asked="offsets of an application", attempt=_application_reset),
    Tool(name="kafka-reassign-partitions", asked="execute a plan, verify it, list", attempt=_reassign),
    Tool(name="kafka-acls", asked="list, without an authorizer", attempt=_acls),
    Tool(
        name="kafka-share-groups", asked="list, describe, reset offsets and read anew, delete offsets and groups",
        attempt=_share_groups,
    ),
)  # fmt: skip
