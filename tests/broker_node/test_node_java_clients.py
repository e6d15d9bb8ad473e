"""Kafka's own Java clients on the reference cluster, by the tools that come with them: every codec written and read.

The group protocol is not needed: the console consumer is given its partition, so it assigns and does not subscribe.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_helper import PATIENT, Cluster
from confluent_helper import create_topic, wait_brokers

from broker.door.clients import TopicPartition
from broker.wire.records import iter_batches
from harness.clusters.kafka.jars import ensure_jars, java_command
from tests.patience import communicate
from tests.raw_log import read_batches

pytestmark = [pytest.mark.slow, pytest.mark.kafka]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MESSAGES = 200


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("java"), settings=PATIENT) as running:
        wait_brokers(running)
        yield running


def tool(cluster: Cluster, name: str, *arguments: object) -> subprocess.Popen[str]:
    # Starting takes most of the time: no optimising compiler, small heap.
    command = [java_command(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx128m", "-cp", f"{ensure_jars()}/*"]
    command += [f"org.apache.kafka.tools.{name}", "--bootstrap-server", cluster.bootstrap(), *map(str, arguments)]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cluster.directory,
    )


def output(process: subprocess.Popen[str]) -> str:
    try:
        out, err = communicate(process, f"the end of {process.args}")
    finally:
        process.kill()
    assert process.returncode == 0, f"{process.args}\n{out[-2000:]}\n{err[-4000:]}"
    return out


def codecs_in_log(cluster: Cluster, topic: str) -> list[tuple[str, int]]:
    """Codec and number of records of each batch as the brokers keep it."""
    partition = TopicPartition(topic, 0)
    found = []
    for batch in read_batches(cluster.bootstrap(), partition):
        (header,) = [each.header for each in iter_batches(batch.buffer)]
        found.append((header.codec.name.lower(), header.record_count))
    return found


def properties(directory: Path, name: str, **settings: object) -> Path:
    path = directory / f"{name}.properties"
    path.write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in settings.items()))
    return path


def test_verifiable_producer_writes_each_codec_and_console_consumer_reads_all(cluster: Cluster) -> None:
    create_topic(cluster, "java")
    producers = {
        codec: tool(
            cluster, "VerifiableProducer", "--topic", "java", "--max-messages", MESSAGES, "--acks", "-1",
            "--value-prefix", number, "--command-config",
            properties(cluster.directory, codec, compression_type=codec, linger_ms=20),
        )
        for number, codec in enumerate(CODECS)
    }  # fmt: skip
    offsets: set[int] = set()
    for codec, process in producers.items():
        events = [json.loads(line) for line in output(process).splitlines() if line.startswith("{")]
        acked = [event["offset"] for event in events if event["name"] == "producer_send_success"]
        (summary,) = [event for event in events if event["name"] == "tool_data"]
        assert (summary["sent"], summary["acked"], len(acked)) == (MESSAGES, MESSAGES, MESSAGES), codec
        offsets.update(acked)
    assert offsets == set(range(MESSAGES * len(CODECS)))

    written = dict.fromkeys(CODECS, 0)
    for codec, records in codecs_in_log(cluster, "java"):
        written[codec] += records
    assert written == dict.fromkeys(CODECS, MESSAGES)

    reader = tool(
        cluster, "consumer.ConsoleConsumer", "--topic", "java", "--partition", 0, "--offset", "earliest",
        "--max-messages", MESSAGES * len(CODECS), "--timeout-ms", 30_000,
    )  # fmt: skip
    values = output(reader).split()
    assert sorted(values) == sorted(f"{number}.{n}" for number in range(len(CODECS)) for n in range(MESSAGES))
    for number in range(len(CODECS)):
        mine = [value for value in values if value.startswith(f"{number}.")]
        assert mine == [f"{number}.{n}" for n in range(MESSAGES)], "each producer's order"
