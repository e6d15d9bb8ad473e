"""Brokers that die and come back under the client, by SIGKILL."""

from __future__ import annotations

from threading import Thread

from tests.compatibility.features.feature import Client, Feature, until
from tests.compatibility.world import World


def _producer(client: Client, world: World) -> None:
    """What was acknowledged by acks=all is in the log, each once, though the leader died twice."""
    topic = world.topic(min_insync_replicas=2)
    client.producer(idempotence=True)
    sent: list[str] = []
    for round_number in range(2):
        _send(client, topic, sent, f"before {round_number}")
        leader = until(lambda: world.leader(topic), "a leader")
        world.kill(leader)
        _send(client, topic, sent, f"while away {round_number}")
        back = Thread(target=world.start, args=(leader,))
        back.start()
        try:
            _send(client, topic, sent, f"while coming back {round_number}")
        finally:
            back.join()
    _send(client, topic, sent, "after")
    assert world.values(topic) == sent


def _send(client: Client, topic: str, sent: list[str], what: str) -> None:
    texts = [f"{what}, {number}" for number in range(10)]
    client.send(topic, texts)
    sent += texts


def _consumer(client: Client, world: World) -> None:
    """A group whose coordinator and whose partition's leader die goes on, and loses no committed offset."""
    topic, group = world.topic(), world.name("g")
    client.producer()
    client.send(topic, [f"{number}" for number in range(10)])
    client.consumer("a", group=group, auto_commit=False)
    client.call("subscribe", name="a", topics=[topic])
    client.read(10, "a")
    client.call("commit_offset", name="a", topic=topic, partition=0, offset=10)
    for broker in dict.fromkeys((world.coordinator(group), world.leader(topic))):
        assert broker is not None
        world.kill(broker)
        until(lambda: world.leader(topic) and world.coordinator(group), "leaders after the kill")
        client.send(topic, [f"without {broker}"])
        seen: list[str] = []

        def comes(seen: list[str] = seen, wanted: str = f"without {broker}") -> bool:
            seen += [record["value"] for record in client.poll("a")["records"]]
            return wanted in seen

        until(comes, f"what was sent without broker {broker}")
        world.start(broker)
    assert client.call("committed", name="a", topic=topic, partition=0) == 10


FEATURES = (
    Feature(name="leader killed twice under the producer", attempt=_producer),
    Feature(name="coordinator and leader killed under a consumer of a group", attempt=_consumer),
)
