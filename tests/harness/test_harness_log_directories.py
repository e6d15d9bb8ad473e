"""Brokers with two log directories: partitions lie in both, and one directory fails while its broker goes on."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import pytest

from broker.client.replica_questions import LogDirectory
from chaos.faults import FAULTS as FAULT_SPECS
from chaos.targets import PartitionOfInterest
from harness.clusters.base import Address, ClusterKey, Engine
from harness.clusters.factory import build_cluster
from harness.clusters.kafka.jars import ensure_jars
from harness.clusters.process_cluster import ProcessCluster
from harness.clusters.requests import log_directories
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.log_directories import CORDONED, BrokerDirectories
from harness.clusters.requests.own_topics import OwnTopics
from harness.clusters.requests.topic_changes import TopicChanges
from harness.errors import CellError, EnvironmentFault, ExitCode
from runlog.records.lines import FAULTS
from tests.json_lines import read_jsonl
from tests.patience import run_command

ON_APACHE_KAFKA: Final = [pytest.mark.kafka, pytest.mark.long]

pytestmark = pytest.mark.slow


def skip_without_jars(engine: str) -> None:
    try:
        if engine == "kafka":
            ensure_jars()
    except EnvironmentFault as error:
        pytest.skip(str(error))


def wait_for_partitions(cluster: ProcessCluster, count: int) -> list[Path]:
    """Brokers tell a topic before they have made its logs."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = [cluster.partition_directory(1, "t", partition) for partition in range(count)]
        if None not in found:
            return [path for path in found if path is not None]
        time.sleep(0.05)
    raise AssertionError(f"not all of {count} partitions have a log within 60 s")


@pytest.mark.parametrize("engine", ["reference", pytest.param("kafka", marks=ON_APACHE_KAFKA)])
def test_partitions_lie_in_both_log_directories_and_all_of_them_are_removed(tmp_path: Path, engine: Engine) -> None:
    skip_without_jars(engine)
    key = ClusterKey(engine=engine, proxied=False, brokers=1, log_directories=2, settings=())
    cluster = build_cluster(key, tmp_path, proxy_choice="embedded", lease=None, seed=0)
    data = tmp_path / "broker-1" / "data"
    try:
        cluster.start()
        Admin(cluster.direct_addresses).create_topic("t", partitions=4, replication_factor=1, config={})
        found = wait_for_partitions(cluster, 4)
        assert sorted(str(path.parent.relative_to(data)) for path in found) == ["1", "1", "2", "2"]
        assert (data / "metadata" / "__cluster_metadata-0").is_dir()
        with cluster.probe(1) as probe:
            assert probe.failed_log_directories() == frozenset()
    finally:
        cluster.stop()
    cluster.remove_data()
    assert not data.exists()


@pytest.mark.parametrize("wanted", ["/data/2", "", "*"])
def test_a_cordon_ends_when_the_broker_tells_it_and_acts_by_it(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    """In Apache Kafka the controller answers, the broker reads the metadata log later, and its log manager hears of it
    last. Until then it would move replicas into a directory that was just cordoned, or refuse one whose cordon was just
    lifted."""
    told = iter(["/data/1", "/data/1", wanted, wanted, wanted])
    cordoned = iter(
        [{"/data/1"}, {"/data/1"}, {"/data/2": {"/data/2"}, "*": {"/data/1", "/data/2"}}.get(wanted, set())]
    )
    asked: list[str] = []

    class BehindTheController:
        def __init__(self, addresses: object) -> None: ...

        def change(self, what: str, question: object) -> None:
            asked.append("change")

        def broker_config(self, broker_id: int, address: object) -> dict[str, str]:
            asked.append("tell")
            return {CORDONED: next(told)}

    class BehindItsBroker:
        def __init__(self, address: object, *, timeout_s: float) -> None: ...

        def __enter__(self) -> BehindItsBroker:
            return self

        def __exit__(self, *error: object) -> None: ...

        def ask(self, question: object) -> dict[str, LogDirectory]:
            asked.append("act")
            now = next(cordoned)
            return {
                path: LogDirectory(total_bytes=1, usable_bytes=1, replicas={}, is_cordoned=path in now)
                for path in ("/data/1", "/data/2")
            }

    monkeypatch.setattr(log_directories, "Admin", BehindTheController)
    monkeypatch.setattr(log_directories, "BrokerProbe", BehindItsBroker)
    BrokerDirectories(lambda broker: Address(host="127.0.0.1", port=1), lambda topic: None).cordon(1, wanted)
    assert asked == ["change", "tell", "tell", "tell", "act", "tell", "act", "tell", "act"]


@pytest.mark.parametrize("engine", ["reference", pytest.param("kafka", marks=ON_APACHE_KAFKA)])
def test_a_log_directory_is_emptied_and_gets_no_new_replica_until_it_is_healed(tmp_path: Path, engine: Engine) -> None:
    skip_without_jars(engine)
    key = ClusterKey(engine=engine, proxied=False, brokers=1, log_directories=2, settings=())
    cluster = build_cluster(key, tmp_path, proxy_choice="embedded", lease=None, seed=0)
    try:
        cluster.start()
        admin = Admin(cluster.direct_addresses)
        own = OwnTopics(admin)
        own.create("t", partitions=4, replication_factor=1, config={})
        admin.create_topic("theirs", partitions=1, replication_factor=1, config={})
        before = wait_for_partitions(cluster, 4)
        topics = TopicChanges(cluster.broker_addresses, cluster.probe_of_leader, own)
        directories = BrokerDirectories(lambda broker: cluster.broker_addresses().get(broker), topics.require_own)
        brokers = SimpleNamespace(leader=lambda topic, partition: 1, broker_ids=(1,))
        port = SimpleNamespace(log_directories=directories, brokers=brokers)
        spec = FAULT_SPECS["log_directory_emptied"]
        context = spec.context("leader", port, PartitionOfInterest(topic="t", partition=2), None, "test")
        fault = spec.make(context, {})
        fault.inject()
        proof = fault.prove()
        assert proof.is_effective, proof
        emptied = before[2].parent
        assert proof.detail["directory"] == str(emptied)
        (other,) = {cluster.partition_directory(1, "t", index).parent for index in range(4)}  # type: ignore[union-attr]
        assert other != emptied
        topics.set_partition_count("t", 8)
        assert {path.parent for path in wait_for_partitions(cluster, 8)} == {other}
        with pytest.raises(CellError, match="INVALID_REPLICA_ASSIGNMENT"):
            directories.move(1, "t", {2: str(emptied)})
        with pytest.raises(CellError, match="theirs"):
            directories.move(1, "theirs", {0: str(other)})
        fault.heal()
        assert directories.cordoned(1) == ""
        assert not fault.prove().is_effective
        topics.set_partition_count("t", 9)
        assert wait_for_partitions(cluster, 9)[8].parent == emptied
    finally:
        cluster.stop()


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize(
    ("engine", "client"), [("reference", "reference"), pytest.param("kafka", "confluent", marks=ON_APACHE_KAFKA)]
)
def test_a_broker_goes_on_without_one_of_its_log_directories(tmp_path: Path, engine: str, client: str) -> None:
    skip_without_jars(engine)
    command = [sys.executable, "-m", "harness", "chaos", "log-directory-failure", "--cluster", engine]
    done = run_command(
        [*command, "--client", client, "--run-dir", str(tmp_path / "run")],
    )  # fmt: skip
    assert done.returncode == ExitCode.PASS, f"stdout:\n{done.stdout[-3000:]}\nstderr:\n{done.stderr[-3000:]}"
    (cell,) = json.loads((tmp_path / "run" / "results" / "verdicts.json").read_text(encoding="utf-8"))["cells"]
    assert (cell["verdict"], cell["lost"]) == ("pass", 0)
    (faults,) = (tmp_path / "run" / "cells").glob("*/faults.jsonl")
    lines = [FAULTS.record(line) for line in read_jsonl(faults)]
    struck = {line.id: line.detail for line in lines if line.phase == "proved" and "directories" in line.detail}
    gone_on = {line.id: line.detail for line in lines if line.id.startswith("goes-on")}
    for fault, condition in (("failing", "goes-on-1"), ("full", "goes-on-2")):
        seen = gone_on[condition]
        broker, (failed,) = seen["broker"], seen["failed"]
        assert struck[fault]["directories"] == {f"broker {broker}": failed}
        assert struck[fault]["calls"][f"broker {broker}"]["write"] >= 1
        assert len(seen["out_of_sync_there"]) == len(seen["in_sync_elsewhere"]) == 2
