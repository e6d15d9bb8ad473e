"""Kafka's own command line tools, from its jars, against three broker processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_helper import Cluster
from confluent_helper import create_topic, produce, wait_brokers

JARS = Path(os.environ.get("HARNESS_CACHE_DIR", Path(__file__).parents[2] / ".cache")) / "kafka" / "libs"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not any(JARS.glob("kafka-tools-*.jar")), reason="no Kafka jars: make setup-dev"),
    pytest.mark.skipif(shutil.which("java") is None, reason="no Java"),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("tools")) as running:
        wait_brokers(running)
        create_topic(running, "t", partitions=2)
        produce(running, "t", [f"{number}" for number in range(30)], acks="all")
        yield running


def tool(cluster: Cluster, name: str, *arguments: str) -> str:
    """What the tool prints; it must end with 0."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command += ["-cp", f"{JARS}/*", name, "--bootstrap-server", cluster.bootstrap(), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{name} {arguments}: {done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def test_topics_creates_describes_and_adds_partitions(cluster: Cluster) -> None:
    name = "org.apache.kafka.tools.TopicCommand"
    tool(cluster, name, "--create", "--topic", "made", "--partitions", "2", "--config", "cleanup.policy=compact")
    tool(cluster, name, "--alter", "--topic", "made", "--partitions", "3")
    found = tool(cluster, name, "--describe", "--topic", "made")
    assert "PartitionCount: 3" in found
    assert "cleanup.policy=compact" in found


def test_configs_of_topics_and_brokers(cluster: Cluster) -> None:
    name = "kafka.admin.ConfigCommand"
    topic = ("--entity-type", "topics", "--entity-name", "t")
    tool(cluster, name, *topic, "--alter", "--add-config", "retention.ms=777000,segment.bytes=2048")
    found = tool(cluster, name, *topic, "--describe")
    assert "retention.ms=777000" in found
    # As Apache Kafka: log.retention.ms has no default of its own, log.segment.bytes has one.
    assert "synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=777000}" in found
    assert "DEFAULT_CONFIG:log.segment.bytes=1073741824" in found
    tool(cluster, name, *topic, "--alter", "--delete-config", "retention.ms")
    tool(
        cluster, name, "--entity-type", "brokers", "--entity-default", "--alter", "--add-config", "max.connections=500"
    )
    assert "max.connections=500" in tool(cluster, name, "--entity-type", "brokers", "--entity-default", "--describe")


def test_quotas_of_clients(cluster: Cluster) -> None:
    name = "kafka.admin.ConfigCommand"
    client = ("--entity-type", "clients", "--entity-name", "slow")
    tool(cluster, name, *client, "--alter", "--add-config", "producer_byte_rate=300000,request_percentage=50")
    found = tool(cluster, name, "--entity-type", "clients", "--describe")
    assert "client-id 'slow' are producer_byte_rate=300000.0, request_percentage=50.0" in found


def test_offsets_and_deleted_records(cluster: Cluster, tmp_path: Path) -> None:
    what = tmp_path / "offsets.json"
    what.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 11}]}))
    found = tool(cluster, "org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(what))
    assert "low_watermark: 11" in found
    name = "org.apache.kafka.tools.GetOffsetShell"
    assert "t:0:30" in tool(cluster, name, "--topic", "t")
    assert "t:0:11" in tool(cluster, name, "--topic", "t", "--time", "earliest")
    assert "t:0:11" in tool(cluster, name, "--topic", "t", "--time", "earliest-local")


def test_leader_election_and_log_dirs(cluster: Cluster) -> None:
    name = "org.apache.kafka.tools.LeaderElectionCommand"
    found = tool(cluster, name, "--election-type", "preferred", "--topic", "t", "--partition", "0")
    assert "Valid replica already elected for partitions t-0" in found
    found = tool(cluster, "org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", "t")
    described = json.loads(found.splitlines()[-1])
    assert {each["broker"] for each in described["brokers"]} == set(cluster.ids)


def test_metadata_quorum(cluster: Cluster) -> None:
    name = "org.apache.kafka.tools.MetadataQuorumCommand"
    assert f"LeaderId:               {cluster.controller()}" in tool(cluster, name, "describe", "--status")
    lines = tool(cluster, name, "describe", "--replication").splitlines()
    assert sorted(line.split()[-1] for line in lines[1:]) == ["Follower", "Follower", "Leader"]
