"""Apache Kafka's tools read the metadata that our brokers wrote: kafka-dump-log decodes log and snapshot, and
kafka-metadata-shell shows brokers and topics.

What the log should say is what our own decoder makes of the same file. That both decoders mean the same by each field
is shown by tests/broker_controller/test_controller_record_codec.py.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import pytest
from cluster_helper import make_topics
from frameworks_helper import class_path
from security_helper import USERS, SecuredCluster
from wire_helper import ask

from broker.client.core.metadata import PartitionState
from broker.controller.record_codec import decode_records
from broker.controller.records import MetadataRecord
from broker.door.clients import Admin, NewTopic, TopicPartition
from broker.quorum.checkpoint import decode_snapshot, parse_file_name
from broker.quorum.entries import decode_entries
from broker.quorum.snapshots import Snapshot
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from harness.clusters.kafka.jars import has_jars, jar_directory, java_command
from tests.patience import run_command, wait_until

sys.path.insert(0, str(Path(__file__).parents[1] / "broker_controller"))
from metadata_examples import as_kafka_prints, printed

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(not has_jars(jar_directory()), reason="no Kafka jars: make setup-dev"),
]
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "metadata.log.max.snapshot.interval.ms": 2_000,
    "broker.session.timeout.ms": 4_000,
}
LIVE, GONE, FORGOTTEN = "orders", "dropped", 3
ATTEMPTS = 20  # of the shell, which now and then runs its command too early
DUMP, SHELL = "org.apache.kafka.tools.DumpLogSegments", "org.apache.kafka.shell.MetadataShell"


@dataclass(frozen=True, slots=True)
class Written:
    """What broker 1 left when it was stopped, and what clients were told of the first partition."""

    log: Path
    snapshot: Path
    topic_id: UUID
    partition: PartitionState


def admin_of(cluster: SecuredCluster, **settings: object) -> Admin:
    return Admin({"bootstrap.servers": cluster.bootstrap(), "default.api.timeout.ms": 120_000, **settings})


def as_alice(cluster: SecuredCluster) -> Admin:
    return admin_of(
        cluster,
        **{
            "bootstrap.servers": f"127.0.0.1:{cluster.ports[1]['SASL_PLAINTEXT']}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": (
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                f'username="alice" password="{USERS["alice"]}";'
            ),
        },
    )


def change_everything(cluster: SecuredCluster) -> None:
    with admin_of(cluster) as admin:
        make_topics(admin, NewTopic(LIVE, 4, 3, {"retention.ms": "3600000"}), NewTopic(GONE, 1, 3))
        admin.delete_topics([GONE])
        admin.create_partitions({LIVE: 5})
        admin.alter_configs("topic", LIVE, {"cleanup.policy": "compact"})
        admin.alter_configs("group", "g", {"consumer.session.timeout.ms": "50000"})
        admin.alter_configs("broker", "", {"min.insync.replicas": "2"})  # the eligible replicas are forgotten
        admin.alter_client_quotas("load", {"request_percentage": 12.5, "consumer_byte_rate": 10})
        admin.alter_client_quotas("load", {"consumer_byte_rate": None})
        admin.alter_reassignments({TopicPartition(LIVE, 0): (2, 1)})
        wait_until(lambda: not admin.list_reassignments(), "the reassignment is complete")
    change_security(cluster)
    make_ids(cluster)


def change_security(cluster: SecuredCluster) -> None:
    port = cluster.ports[1]["DIRECT"]
    rules = [
        {"resource_type": 2, "resource_name": name, "resource_pattern_type": 4, "principal": "User:alice",
         "host": "*", "operation": 3, "permission_type": 3}
        for name in ("ord", "old")
    ]  # fmt: skip
    made = ask(port, ApiKey.CREATE_ACLS, 3, creations=rules).results
    assert [each.error_code for each in made] == [ErrorCode.none] * 2
    any_old = {"resource_type_filter": 2, "resource_name_filter": "old", "pattern_type_filter": 4,
               "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}  # fmt: skip
    (removed,) = ask(port, ApiKey.DELETE_ACLS, 3, filters=[any_old]).filter_results
    assert len(removed.matching_acls) == 1
    cluster.make_scram_users()
    deletions = [{"name": "bob", "mechanism": 1}]
    (answer,) = ask(port, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=deletions, upsertions=[]).results
    assert answer.error_code is ErrorCode.none


def make_ids(cluster: SecuredCluster) -> None:
    """A block of producer ids."""
    answer = ask(
        cluster.ports[1]["DIRECT"], ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=60_000
    )
    assert answer.error_code is ErrorCode.none


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    with SecuredCluster(tmp_path_factory.mktemp("metadata"), brokers=3, settings=SETTINGS) as cluster:
        cluster.wait_until_all_are_known()
        change_everything(cluster)
        cluster.kill(FORGOTTEN)
        with admin_of(cluster) as admin:
            wait_until(lambda: len(admin.describe_cluster().brokers) == 2, "a broker is fenced")
            admin.unregister_broker(FORGOTTEN)
            topic = admin.describe_topics()[LIVE]
        directory = cluster.log_dir(1) / "__cluster_metadata-0"
        unregistered = time.time()

        def latest() -> Path | None:
            found = [each for each in directory.glob("*.checkpoint") if each.stat().st_mtime > unregistered]
            return max(found, default=None)

        wait_until(latest, "a snapshot of all this")
        for broker in cluster.ids:
            if broker in cluster.processes:
                cluster.kill(broker)
        snapshot = latest()
        assert snapshot is not None
        log = directory / "00000000000000000000.log"
        yield Written(log=log, snapshot=snapshot, topic_id=UUID(topic.topic_id), partition=topic.partitions[0])


def java(directory: Path, *arguments: str) -> str:
    command = [java_command(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m", "-cp", class_path(), *arguments]
    command.insert(1, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
    done = run_command(command, cwd=directory)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def dumped(file: Path) -> list[dict[str, Any]]:
    """Offset, and the record as kafka-dump-log prints it."""
    text = java(file.parent, DUMP, "--cluster-metadata-decoder", "--files", str(file))
    assert not re.search(r"isvalid: false|Error|Could not decode", text), text[-2000:]
    rows = re.findall(r"^\| offset: (\d+) .*? payload: (\{.*\})$", text, re.MULTILINE)
    return [{"offset": int(offset), **json.loads(record)} for offset, record in rows]


def as_dumped(records: tuple[MetadataRecord, ...]) -> list[dict[str, Any]]:
    return [
        {
            "type": re.sub(r"(?<!^)(?=[A-Z])", "_", type(each).__name__).upper(),
            "version": type(each).__version__,
            "data": printed(each),
        }
        for each in records
    ]


def without_offsets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "offset"} for row in rows]


def test_kafka_dump_log_decodes_every_record_of_the_log(written: Written) -> None:
    entries = [each for each in decode_entries(written.log.read_bytes()) if not each.is_control]
    records = tuple(record for entry in entries for record in decode_records(entry.values))
    assert {type(each) for each in records} == set(get_args(MetadataRecord)), "every type was written"
    found = dumped(written.log)
    assert without_offsets(found) == as_dumped(records)
    offsets = [offset for entry in entries for offset in range(entry.offset, entry.end_offset)]
    assert [row["offset"] for row in found] == offsets
    epochs = [row["data"]["brokerEpoch"] for row in found if row["type"] == "REGISTER_BROKER_RECORD"]
    assert epochs == [row["offset"] for row in found if row["type"] == "REGISTER_BROKER_RECORD"]


def test_kafka_dump_log_decodes_every_record_of_a_snapshot(written: Written) -> None:
    snapshot_id = parse_file_name(written.snapshot.name)
    assert snapshot_id is not None
    values = decode_snapshot(Snapshot(snapshot_id=snapshot_id, data=written.snapshot.read_bytes()))
    found = dumped(written.snapshot)
    assert without_offsets(found) == as_dumped(decode_records(values))
    assert [row["offset"] for row in found] == list(range(1, len(values) + 1)), "between header and footer"
    names = [row["data"]["name"] for row in found if row["type"] == "TOPIC_RECORD"]
    assert names == [LIVE]


@pytest.mark.parametrize("kind", ["snapshot", "log"])
def test_kafka_metadata_shell_shows_brokers_and_topics(written: Written, kind: str) -> None:
    file = str(written.snapshot if kind == "snapshot" else written.log)

    def shows(command: str, path: str, *expected: str) -> None:
        """The shell may run the command while it still reads the file. It then shows nothing, or an earlier state. So
        it is asked again."""
        last = ""
        for _ in range(ATTEMPTS):
            last = java(written.log.parent, SHELL, "--snapshot", file, command, path)
            if last.split() == list(expected) if command == "ls" else all(text in last for text in expected):
                return
        raise AssertionError(f"{command} {path}: expected {expected}, got {last}")

    shows("ls", "/image/cluster/brokers", "1", "2")
    shows("ls", "/image/topics/byName", LIVE)
    shows("ls", f"/image/topics/byName/{LIVE}", "0", "1", "2", "3", "4", "id", "name")
    shows("cat", f"/image/topics/byName/{LIVE}/id", str(as_kafka_prints(written.topic_id)))
    shows(
        "cat",
        f"/image/topics/byName/{LIVE}/0",
        "replicas=[2, 1]",
        f"isr={list(written.partition.isr)}",
        f"leader={written.partition.leader}, ",
        f"leaderEpoch={written.partition.leader_epoch}, ",
    )
    shows("cat", f"/image/configs/TOPIC:{LIVE}/cleanup.policy", "compact")
    shows("ls", "/image/scram/SCRAM-SHA-512", *sorted(USERS))
