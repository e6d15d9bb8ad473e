"""Transactions as a client sees them: commit, abort, isolation, fencing, offsets within."""

from __future__ import annotations

from tests.compatibility.features.feature import Client, Feature, refused, values
from tests.compatibility.world import World


def _transactional(client: Client, world: World, name: str = "p", transactional_id: str = "") -> str:
    chosen = transactional_id or world.name("tx")
    client.producer(name, transactional_id=chosen)
    client.call("init_transactions", name=name)
    return chosen


def _commit(client: Client, world: World) -> None:
    topic = world.topic()
    _transactional(client, world)
    for round_number in range(3):
        client.call("begin", name="p")
        client.send(topic, [f"{round_number}a", f"{round_number}b"])
        client.call("commit", name="p")
    found = values(client.read_from(topic, 6, isolation="read_committed"))
    assert found == [f"{number}{letter}" for number in range(3) for letter in "ab"]
    assert sum(header.is_control for header in world.batches(topic)) == 3, "markers"


def _abort(client: Client, world: World) -> None:
    topic = world.topic()
    _transactional(client, world)
    for text, end in (("gone", "abort"), ("kept", "commit"), ("gone too", "abort"), ("last", "commit")):
        client.call("begin", name="p")
        client.send(topic, [text])
        client.call(end, name="p")
    assert values(client.read_from(topic, 2, isolation="read_committed")) == ["kept", "last"]
    assert world.values(topic) == ["gone", "kept", "gone too", "last"]


def _isolation(client: Client, world: World) -> None:
    topic = world.topic()
    _transactional(client, world)
    client.call("begin", name="p")
    client.send(topic, ["open"])
    client.producer("plain")
    client.send(topic, ["after"], name="plain")
    assert values(client.read_from(topic, 2, isolation="read_uncommitted")) == ["open", "after"]
    assert client.read_from(topic, 0, isolation="read_committed") == [], "read beyond the last stable offset"
    client.call("commit", name="p")
    assert values(client.read_from(topic, 2, isolation="read_committed")) == ["open", "after"]


def _fencing(client: Client, world: World) -> None:
    topic = world.topic()
    name = _transactional(client, world, "zombie")
    client.call("begin", name="zombie")
    client.send(topic, ["of the zombie"], name="zombie")
    _transactional(client, world, "successor", name)  # aborts what the first left open
    client.call("begin", name="successor")
    client.send(topic, ["of the successor"], name="successor")
    client.call("commit", name="successor")

    def go_on() -> None:
        client.send(topic, ["again"], name="zombie")
        client.call("commit", name="zombie")

    refused("fenced|invalidproducerepoch|oldepoch|newerproducer|producerepoch", go_on)
    assert values(client.read_from(topic, 1, isolation="read_committed")) == ["of the successor"]


def _offsets(client: Client, world: World) -> None:
    """Consume, transform, produce: the offset is committed with the transaction, and not with an aborted one."""
    source, target, group = world.topic(), world.topic(), world.name("g")
    client.producer("plain")
    client.send(source, ["1", "2", "3"], name="plain")
    client.consumer(group=group, auto_commit=False, isolation="read_committed")
    client.call("subscribe", name="c", topics=[source])
    assert len(client.read(3)) == 3
    _transactional(client, world)
    for offset, end in ((2, "commit"), (3, "abort")):
        client.call("begin", name="p")
        client.send(target, [f"up to {offset}"])
        client.call("send_offsets", name="p", consumer="c", group=group, topic=source, partition=0, offset=offset)
        client.call(end, name="p")
    assert client.call("committed", name="c", topic=source, partition=0) == 2
    assert values(client.read_from(target, 1, isolation="read_committed")) == ["up to 2"]


FEATURES = (
    Feature(name="commit", attempt=_commit),
    Feature(name="abort", attempt=_abort),
    Feature(name="read_committed stops at the last stable offset", attempt=_isolation),
    Feature(name="fencing of an older producer", attempt=_fencing),
    Feature(name="offsets within the transaction", attempt=_offsets),
)
