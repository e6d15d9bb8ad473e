"""Tools that produce and consume: console, performance, latency, verifiable clients, the transactional copier."""

from __future__ import annotations

import json
import re

from tests.compatibility.tools.toolbox import Tool, Toolbox

CONSUMER = "consumer.ConsoleConsumer"


def _console(box: Toolbox) -> None:
    topic = box.world.topic()
    lines = [f"line {number}" for number in range(10)]
    box.run("ConsoleProducer", "--topic", topic, stdin="".join(f"{line}\n" for line in lines))
    assert box.world.values(topic) == lines
    found = box.run(CONSUMER, "--topic", topic, "--from-beginning", "--max-messages", 10, "--timeout-ms", 60_000)
    assert [line for line in found.splitlines() if line.startswith("line")] == lines, found


def _producer_performance(box: Toolbox) -> None:
    topic = box.world.topic()
    given = ("--num-records", 500, "--record-size", 100, "--throughput", -1)
    found = box.run("ProducerPerformance", "--topic", topic, *given)
    assert "500 records sent" in found, found
    assert len(box.world.values(topic)) == 500


def _consumer_performance(box: Toolbox) -> None:
    topic = box.topic_of(300)
    found = box.run("ConsumerPerformance", "--topic", topic, "--num-records", 300, "--timeout", 60_000)
    assert re.search(r",\s*300,", found), found


def _end_to_end_latency(box: Toolbox) -> None:
    topic = box.world.topic()
    given = ("--topic", topic, "--num-records", 20, "--producer-acks", "all", "--record-size", 50)
    assert "Percentiles" in box.run("EndToEndLatency", *given)


def _verifiable_producer(box: Toolbox) -> None:
    topic = box.world.topic()
    found = box.run("VerifiableProducer", "--topic", topic, "--max-messages", 50, "--acks", -1)
    assert '"sent":50,"acked":50' in found, found
    assert box.world.values(topic) == [str(number) for number in range(50)]


def _verifiable_consumer(box: Toolbox) -> None:
    topic = box.topic_of(50)
    for protocol in ("classic", "consumer"):
        given = ("--group-id", box.world.name("g"), "--max-messages", 50, "--group-protocol", protocol)
        found = box.run("VerifiableConsumer", "--topic", topic, *given)
        assert '"name":"offsets_committed"' in found, found
        consumed = [json.loads(line) for line in found.splitlines() if '"name":"records_consumed"' in line]
        assert sum(each["count"] for each in consumed) == 50, consumed


def _copier(box: Toolbox) -> None:
    source, target = box.topic_of(40), box.world.topic()
    box.run(
        "TransactionalMessageCopier", "--input-topic", source, "--input-partition", 0, "--output-topic", target,
        "--consumer-group", box.world.name("g"), "--transaction-size", 10, "--transactional-id", box.world.name("tx"),
        "--enable-random-aborts", "--use-group-metadata", server="--broker-list",
    )  # fmt: skip
    copied = box.run(
        CONSUMER, "--topic", target, "--partition", 0, "--offset", "earliest", "--max-messages", 40,
        "--timeout-ms", 60_000, "--isolation-level", "read_committed",
    )  # fmt: skip
    assert [line for line in copied.splitlines() if line.isdigit()] == [str(number) for number in range(40)], copied


TOOLS = (
    Tool(name="kafka-console-producer, kafka-console-consumer", asked="ten lines there and back", attempt=_console),
    Tool(name="kafka-producer-perf-test", asked="500 records", attempt=_producer_performance),
    Tool(name="kafka-consumer-perf-test", asked="300 records", attempt=_consumer_performance),
    Tool(name="kafka-e2e-latency", asked="20 records with acks=all", attempt=_end_to_end_latency),
    Tool(name="kafka-verifiable-producer", asked="50 records with acks=all", attempt=_verifiable_producer),
    Tool(
        name="kafka-verifiable-consumer", asked="50 records in a group of each protocol", attempt=_verifiable_consumer
    ),
    Tool(
        name="TransactionalMessageCopier",
        asked="40 records in transactions of ten, with random aborts",
        attempt=_copier,
    ),
)
