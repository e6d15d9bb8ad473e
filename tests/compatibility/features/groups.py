"""Consumer groups: both protocols, cooperative and static members, committed offsets."""

from __future__ import annotations

from tests.compatibility.features.feature import Attempt, Client, Feature, until, values
from tests.compatibility.world import World

PARTITIONS = 4


def _held(client: Client, *names: str) -> list[set[int]]:
    return [set(client.poll(name, 200)["assignment"]) for name in names]


def _shared(protocol: str, assignor: str, *, keeps: bool) -> Attempt:
    """One member, then two, then one again; `keeps`: the first never gives up more than it must (KIP-429, KIP-848)."""

    def attempt(client: Client, world: World) -> None:
        topic, group = world.topic(PARTITIONS), world.name("g")
        config = {"group": group, "protocol": protocol, "assignor": assignor}
        client.consumer("a", **config)
        client.call("subscribe", name="a", topics=[topic])
        everything = set(range(PARTITIONS))
        until(lambda: _held(client, "a") == [everything], "all partitions at the only member")
        expected = "consumer" if protocol == "consumer" else "classic"
        assert world.group_type(group) == expected
        client.consumer("b", **config)
        client.call("subscribe", name="b", topics=[topic])
        least = PARTITIONS

        def is_balanced() -> bool:
            nonlocal least
            first, second = _held(client, "a", "b")
            least = min(least, len(first))
            return len(first) == len(second) == 2 and first | second == everything

        until(is_balanced, "two partitions at each of two members")
        assert not keeps or least == 2, f"the first member was down to {least} partitions"
        client.producer()
        for partition in range(PARTITIONS):
            client.send(topic, [f"of {partition}"], partition=partition)
        seen: set[str] = set()

        def all_seen() -> bool:
            for name in ("a", "b"):
                seen.update(values(client.poll(name, 200)["records"]))
            return len(seen) == PARTITIONS

        until(all_seen, "a record of every partition")
        client.call("consumer_close", name="b")
        until(lambda: _held(client, "a") == [everything], "all partitions back")

    return attempt


def _static(client: Client, world: World) -> None:
    topic, group = world.topic(PARTITIONS), world.name("g")
    config = {"group": group, "assignor": "range", "instance": "one", "session_timeout_ms": 30_000}
    client.consumer("a", **config)
    client.call("subscribe", name="a", topics=[topic])
    until(lambda: len(_held(client, "a")[0]) == PARTITIONS, "all partitions at the static member")
    (before,) = world.group(group).members
    assert before.group_instance_id == "one"
    client.call("consumer_close", name="a")
    (away,) = world.group(group).members
    assert away.member_id == before.member_id, "a static member must stay when it closes"
    client.consumer("a", **config)
    client.call("subscribe", name="a", topics=[topic])
    until(lambda: len(_held(client, "a")[0]) == PARTITIONS, "all partitions at the member that came back")
    (after,) = world.group(group).members
    assert (after.group_instance_id, after.member_id != before.member_id) == ("one", True)


def _commits(client: Client, world: World) -> None:
    topic, group = world.topic(), world.name("g")
    client.producer()
    client.send(topic, [f"{number}" for number in range(20)])
    client.consumer("a", group=group, auto_commit=False)
    client.call("subscribe", name="a", topics=[topic])
    client.read(20, "a")
    client.call("commit_offset", name="a", topic=topic, partition=0, offset=10)
    assert client.call("committed", name="a", topic=topic, partition=0) == 10
    client.call("consumer_close", name="a")
    client.consumer("b", group=group, auto_commit=False)
    client.call("subscribe", name="b", topics=[topic])
    assert values(client.read(10, "b")) == [f"{number}" for number in range(10, 20)]


FEATURES = (
    Feature(name="classic, range", attempt=_shared("classic", "range", keeps=False)),
    Feature(name="classic, round robin", attempt=_shared("classic", "roundrobin", keeps=False)),
    Feature(name="classic, cooperative-sticky", attempt=_shared("classic", "cooperative-sticky", keeps=True)),
    Feature(name="new protocol (KIP-848)", attempt=_shared("consumer", "", keeps=True)),
    Feature(name="static member closes and comes back", attempt=_static),
    Feature(name="commit, and go on from it", attempt=_commits),
)
