"""Administration: topics, settings, groups, offsets, records, leaders; refusals with their right code."""

from __future__ import annotations

from tests.compatibility.features.feature import Client, Feature, refused, until
from tests.compatibility.world import World


def _describe_cluster(client: Client, world: World) -> None:
    assert sorted(client.call("describe_cluster")) == list(world.cluster.ids)


def _topics(client: Client, world: World) -> None:
    name = world.name("made")
    client.call("create_topic", topic=name, partitions=2, replication=3, config={"retention.ms": "777000"})
    until(lambda: world.topics().get(name) == 2, "the topic")
    until(lambda: name in client.call("list_topics"), "the topic in the client's list")
    described = until(lambda: client.call("describe_topic", topic=name), "the client's description")
    assert [sorted(each["replicas"]) for each in described] == [[1, 2, 3], [1, 2, 3]]
    client.call("delete_topic", topic=name)
    until(lambda: name not in world.topics(), "the topic's end")


def _topic_refusals(client: Client, world: World) -> None:
    def create(name: str, **changes: object) -> None:
        client.call("create_topic", **{"topic": name, "partitions": 1, "replication": 3, "config": {}, **changes})

    refused("exist", lambda: create(world.topic()))
    refused("invalidtopic|topicexception|illegal|invalidcharacter|topicnameisinvalid", lambda: create("a/b"))
    refused("replication", lambda: create(world.name(), replication=9))
    refused("config", lambda: create(world.name(), config={"no.such.setting": "1"}))
    refused("unknowntopic|partitionthatdoesnotexist", lambda: client.call("delete_topic", topic="never-made"))


def _partitions(client: Client, world: World) -> None:
    topic = world.topic(2)
    client.call("create_partitions", topic=topic, total=5)
    until(lambda: world.topics()[topic] == 5, "five partitions")
    refused("partition", lambda: client.call("create_partitions", topic=topic, total=3))


def _describe_configs(client: Client, world: World) -> None:
    topic = world.topic(retention_ms=123_000)
    found = client.call("describe_configs", kind="topic", name=topic)
    assert found["retention.ms"] == "123000"
    assert found["cleanup.policy"] == "delete"
    assert client.call("describe_configs", kind="broker", name="1")["node.id"] == "1"


def _alter_configs(client: Client, world: World) -> None:
    topic = world.topic(retention_ms=123_000)
    client.call("alter_configs", topic=topic, config={"segment.bytes": "2000000"}, incremental=False)
    until(lambda: client.call("describe_configs", kind="topic", name=topic)["segment.bytes"] == "2000000", "the change")
    assert client.call("describe_configs", kind="topic", name=topic)["retention.ms"] == "604800000", "all are replaced"


def _incremental_configs(client: Client, world: World) -> None:
    topic = world.topic(retention_ms=123_000)
    client.call("alter_configs", topic=topic, config={"segment.bytes": "2000000"}, incremental=True)
    until(lambda: client.call("describe_configs", kind="topic", name=topic)["segment.bytes"] == "2000000", "the change")
    assert client.call("describe_configs", kind="topic", name=topic)["retention.ms"] == "123000", "others stay"


def _group_with_offset(client: Client, world: World) -> tuple[str, str]:
    topic, group = world.topic(), world.name("g")
    client.producer()
    client.send(topic, [f"{number}" for number in range(9)])
    client.consumer("a", group=group, auto_commit=False)
    client.call("subscribe", name="a", topics=[topic])
    client.read(9, "a")
    client.call("commit_offset", name="a", topic=topic, partition=0, offset=7)
    return topic, group


def _groups(client: Client, world: World) -> None:
    _, group = _group_with_offset(client, world)
    assert group in client.call("list_groups")
    found = client.call("describe_group", group=group)
    assert (found["state"].lower(), found["members"]) == ("stable", 1)
    client.call("consumer_close", name="a")
    until(lambda: client.call("describe_group", group=group)["state"].lower() == "empty", "an empty group")
    assert world.group(group).group_state == "Empty"


def _group_offsets(client: Client, world: World) -> None:
    topic, group = _group_with_offset(client, world)
    assert client.call("group_offsets", group=group, topic=topic, partition=0) == 7


def _alter_group_offsets(client: Client, world: World) -> None:
    topic, group = _group_with_offset(client, world)
    client.call("consumer_close", name="a")
    until(lambda: not world.group(group).members, "an empty group")
    client.call("alter_group_offsets", group=group, topic=topic, partition=0, offset=3)
    assert client.call("group_offsets", group=group, topic=topic, partition=0) == 3


def _delete_group_offsets(client: Client, world: World) -> None:
    topic, group = _group_with_offset(client, world)
    client.call("consumer_close", name="a")
    until(lambda: not world.group(group).members, "an empty group")
    client.call("delete_group_offsets", group=group, topic=topic, partition=0)
    assert client.call("group_offsets", group=group, topic=topic, partition=0) is None


def _delete_groups(client: Client, world: World) -> None:
    _, group = _group_with_offset(client, world)
    refused("notempty|nonempty|groupisnotempty", lambda: client.call("delete_group", group=group))
    client.call("consumer_close", name="a")
    until(lambda: not world.group(group).members, "an empty group")
    client.call("delete_group", group=group)
    until(lambda: world.group_type(group) == "", "the group's end")
    refused("groupid|doesnotexist|notfound", lambda: client.call("delete_group", group="never-was"))


def _delete_records(client: Client, world: World) -> None:
    topic = world.topic()
    client.producer()
    client.send(topic, [f"{number}" for number in range(10)])
    client.call("delete_records", topic=topic, partition=0, offset=6)
    assert world.log_start(topic) == 6
    assert world.values(topic, from_offset=6) == ["6", "7", "8", "9"]


def _list_offsets(client: Client, world: World) -> None:
    topic = world.topic()
    client.producer()
    client.send(topic, ["a", "b", "c"])
    found = client.call("list_offsets", topic=topic, partition=0)
    assert found == {"earliest": 0, "latest": 3}


def _elect_leaders(client: Client, world: World) -> None:
    """A preferred leader that came back leads again; asked once more, the broker says that nothing is to be done."""
    topic = world.topic()
    preferred = world.partition(topic).replica_nodes[0]
    world.kill(preferred)
    until(lambda: world.leader(topic), "another leader")
    world.start(preferred)
    if world.leader(topic) != preferred:  # it may have moved back by itself
        client.call("elect_leaders", topic=topic, partition=0)
        until(lambda: world.leader(topic) == preferred, "the preferred leader")
    refused("notneeded|electionnot|alreadyelected", lambda: client.call("elect_leaders", topic=topic, partition=0))


def _log_dirs(client: Client, world: World) -> None:
    topic = world.topic()
    client.producer(codec="none")  # some clients compress unless told otherwise
    client.send(topic, ["x" * 5_000])

    def all_copies_are_there() -> bool:
        sizes = client.call("log_dirs", topic=topic)
        return len(sizes) == 3 and min(sizes) >= 5_000

    until(all_copies_are_there, "5,000 bytes in the log of each of three replicas")


def _producers(client: Client, world: World) -> None:
    topic, transactional_id = world.topic(), world.name("tx")
    client.producer(transactional_id=transactional_id)
    client.call("init_transactions", name="p")
    client.call("begin", name="p")
    client.send(topic, ["open"])
    assert client.call("producers", topic=topic, partition=0) == 1
    assert client.call("transactions")[transactional_id].lower() == "ongoing"
    client.call("abort", name="p")


def _quorum(client: Client, world: World) -> None:
    found = client.call("quorum")
    assert found["voters"] == list(world.cluster.ids)
    assert found["leader"] == world.cluster.controller()


def _reassign(client: Client, world: World) -> None:
    topic = world.topic()
    client.producer()
    client.send(topic, ["a", "b"])
    replicas = list(world.partition(topic).replica_nodes)
    wanted = [*replicas[1:], replicas[0]][:2]
    client.call("reassign", topic=topic, partition=0, replicas=wanted)
    until(lambda: list(world.partition(topic).replica_nodes) == wanted, "the new replicas")
    assert world.values(topic) == ["a", "b"]


def _acls(client: Client, world: World) -> None:
    world.allow_reading(world.topic())
    until(lambda: client.call("acls") == 1, "the one list that there is")


FEATURES = (
    Feature(name="describe the cluster", attempt=_describe_cluster),
    Feature(name="create, list, describe, delete topics", attempt=_topics),
    Feature(name="errors of topics", attempt=_topic_refusals),
    Feature(name="add partitions", attempt=_partitions),
    Feature(name="describe settings of topics and brokers", attempt=_describe_configs),
    Feature(name="change settings, all at once", attempt=_alter_configs),
    Feature(name="change settings, one by one (KIP-339)", attempt=_incremental_configs),
    Feature(name="list and describe groups", attempt=_groups),
    Feature(name="read a group's offsets", attempt=_group_offsets),
    Feature(name="change a group's offsets", attempt=_alter_group_offsets),
    Feature(name="delete a group's offsets", attempt=_delete_group_offsets),
    Feature(name="delete groups", attempt=_delete_groups),
    Feature(name="delete records", attempt=_delete_records),
    Feature(name="list offsets", attempt=_list_offsets),
    Feature(name="elect the preferred leader", attempt=_elect_leaders),
    Feature(name="log directories", attempt=_log_dirs),
    Feature(name="producers and transactions", attempt=_producers),
    Feature(name="metadata quorum", attempt=_quorum),
    Feature(name="reassign partitions", attempt=_reassign),
    Feature(name="access control lists", attempt=_acls),
)
