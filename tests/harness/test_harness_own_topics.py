"""On an external cluster a run makes, uses and deletes only its own topics. All others stay as they are.

A reference cluster is used as if it were external. The marker `kafka` does the same on Apache Kafka.
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.door.clients import Admin as Client
from broker.door.clients import Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from broker.wire.apis import ApiKey
from chaos.lease import Lease
from harness.clusters.base import ClusterKey
from harness.clusters.factory import build_cluster
from harness.clusters.process_cluster import ProcessCluster
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.own_topics import OwnTopics
from harness.errors import CellError, ExitCode
from harness.planned_cell import own_name
from tests.broker_node.wire_helper import ask
from tests.harness.harness_process import HarnessProcess, leases
from tests.harness.test_harness_lint import SOUND
from workloads.members import SHARERS
from workloads.model import copy_topic, topic_names

pytestmark = pytest.mark.slow

SUITE = """
name: beside
cluster: {brokers: 1}
topic: {partitions: 1, replication_factor: 1, config: {min.insync.replicas: 1}}
workload: {rate_per_s: 200, record_size_bytes: 100, warmup_ms: 100, measure_ms: 400, drain_ms: 3000, topics: 2}
sweep:
  proxied: false
  baseline: {linger.ms: 5}
  vary: {linger.ms: [0]}
"""
# As cells were once called on the cluster.
FOREIGN = ("sweep-baseline", "sweep-baseline-t1")
RECORDS = 7


@pytest.fixture(
    scope="module", params=["reference", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.external])]
)
def strangers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    key = ClusterKey(engine=request.param, proxied=False, brokers=1, settings=())
    running = build_cluster(key, tmp_path_factory.mktemp("strangers"), proxy_choice="none", lease=None, seed=1)
    try:
        running.start()
        yield running
    finally:
        running.stop()


def make_foreign(cluster: ProcessCluster, *names: str) -> None:
    """Topics with records in them that no run made."""
    client = Client({"bootstrap.servers": cluster.bootstrap_servers})
    client.create_topics([NewTopic(name, 1, 1, {}) for name in names])
    client.close()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for name in names:
        for number in range(RECORDS):
            producer.send(name, b"%d" % number, partition=0)
    assert producer.flush(60) == 0
    producer.close(5)


def known_topics(run: HarnessProcess) -> int:
    """Topics in the run's lease with their ids: made, and known to be its own."""
    return sum(path.read_text().count('"topic_id": "') for path in leases(run.state_home) if path.suffix == ".json")


def topics_of(cluster: ProcessCluster) -> dict[str, tuple[str | None, int | None]]:
    """Name to id and end offset of the first partition."""
    probe = cluster.probe(1)
    client = Client({"bootstrap.servers": cluster.bootstrap_servers})
    try:
        names = [name for name in client.describe_topics() if not name.startswith("__")]
        return {name: (probe.topic_id(name), probe.end_offset(name, 0)) for name in names}
    finally:
        client.close()
        probe.close()


@pytest.mark.long
def test_two_runs_of_one_suite_side_by_side_leave_foreign_topics_of_the_cells_names_as_they_are(
    strangers: ProcessCluster, tmp_path: Path
) -> None:
    make_foreign(strangers, *FOREIGN)
    before = topics_of(strangers)
    assert {end for _, end in before.values()} == {RECORDS}
    (tmp_path / "beside.yaml").write_text(SUITE)
    runs = [
        HarnessProcess(
            tmp_path, "run", "beside.yaml", "--yes", "--cluster", "external",
            "--bootstrap-server", strangers.bootstrap_servers,
            "--no-report", "--no-certify", "--run-dir", f"run-{number}", "--client", "reference",
            "--cell", "sweep-baseline",
        )
        for number in range(2)
    ]  # fmt: skip
    try:
        codes = [run.wait() for run in runs]
        screens = "\n".join(run.screen for run in runs)
    finally:
        for run in runs:
            run.close()
    assert topics_of(strangers) == before, screens
    assert codes == [ExitCode.PASS, ExitCode.PASS], screens


def test_clean_deletes_the_topics_of_a_run_that_was_killed_and_no_others(
    strangers: ProcessCluster, tmp_path: Path
) -> None:
    make_foreign(strangers, "theirs")
    before = topics_of(strangers)
    (tmp_path / "beside.yaml").write_text(SUITE.replace("measure_ms: 400", "measure_ms: 60000"))
    run = HarnessProcess(
        tmp_path, "run", "beside.yaml", "--yes", "--cluster", "external",
        "--bootstrap-server", strangers.bootstrap_servers,
        "--no-report", "--no-certify", "--run-dir", "killed", "--client", "reference", "--cell", "sweep-baseline",
    )  # fmt: skip
    try:
        run.await_that(lambda: known_topics(run) == 2, "two topics of its own whose ids are written down")
        run.send(signal.SIGKILL)
        run.wait()
    finally:
        run.close()
    again = HarnessProcess(tmp_path, "clean")
    assert again.wait() == ExitCode.PASS, again.screen
    again.close()
    assert again.stdout.count("deleted topic harness-") == 2, again.stdout
    assert topics_of(strangers) == before
    assert leases(tmp_path / "state") == []


SHARED = """
name: shared
cluster: {brokers: 1}
topic: {partitions: 2, replication_factor: 1, config: {min.insync.replicas: 1}}
workload:
  rate_per_s: 200
  record_size_bytes: 100
  warmup_ms: 300
  measure_ms: 2000
  drain_ms: 60000
  readers:
    - {name: app, consumers: 2, mode: share, own_processes: true, group_settings: {share.delivery.count.limit: 10}}
sweep:
  proxied: false
  baseline: {linger.ms: 5}
  vary: {}
"""
GROUP_RESOURCE = 32


@pytest.mark.long
@pytest.mark.parametrize("client", SHARERS)
def test_a_share_group_gets_all_and_its_settings_do_not_stay(
    strangers: ProcessCluster, tmp_path: Path, client: str
) -> None:
    (tmp_path / "shared.yaml").write_text(SHARED)
    run = HarnessProcess(
        tmp_path, "run", "shared.yaml", "--yes", "--cluster", "external",
        "--bootstrap-server", strangers.bootstrap_servers,
        "--no-report", "--no-certify", "--run-dir", "run", "--client", client,
    )  # fmt: skip
    try:
        run.await_that(lambda: bool(groups_with_settings(strangers)), "settings of a group")
        assert run.wait() == ExitCode.PASS, run.screen
    finally:
        run.close()
    outcome = json.loads((tmp_path / "run" / "cells" / "sweep-baseline" / "cell.json").read_text())["outcome"]
    assert (outcome["status"], outcome["members"]["caught_up"], outcome["members"]["died"]) == ("done", True, [])
    assert outcome["members"]["deliveries"] > 100
    assert groups_with_settings(strangers) == []
    assert groups_of(strangers) == []


def groups_of(cluster: ProcessCluster) -> list[str]:
    port = int(cluster.bootstrap_servers.rpartition(":")[2])
    told = ask(port, ApiKey.LIST_GROUPS, 4, states_filter=[]).groups
    return sorted(each.group_id for each in told if each.group_id.startswith("harness-"))


GROUPED = """
name: grouped
cluster: {brokers: 1}
topic: {partitions: 2, replication_factor: 1, config: {min.insync.replicas: 1}}
workload:
  rate_per_s: 200
  record_size_bytes: 100
  warmup_ms: 300
  measure_ms: 3000
  drain_ms: 60000
  readers:
    - {name: inside, consumers: 1, mode: group, properties: {session.timeout.ms: 6000}}
    - {name: own, consumers: 1, mode: group, own_processes: true, properties: {session.timeout.ms: 6000}}
    - {name: app, consumers: 1, mode: share, own_processes: true, group_settings: {share.delivery.count.limit: 10}}
sweep:
  proxied: false
  baseline: {linger.ms: 5}
  vary: {}
"""


def grouped(strangers: ProcessCluster, tmp_path: Path) -> HarnessProcess:
    return HarnessProcess(
        tmp_path, "run", "grouped.yaml", "--yes", "--cluster", "external",
        "--bootstrap-server", strangers.bootstrap_servers,
        "--no-report", "--no-certify", "--run-dir", "run", "--client", "reference",
    )  # fmt: skip


def test_groups_of_members_and_readers_and_their_settings_go_with_the_cell(
    strangers: ProcessCluster, tmp_path: Path
) -> None:
    with Consumer({"bootstrap.servers": strangers.bootstrap_servers, "group.id": "harness-theirs"}) as theirs:
        make_foreign(strangers, "read")
        theirs.commit_sync({TopicPartition("read", 0): OffsetAndMetadata(1)})
        (tmp_path / "grouped.yaml").write_text(GROUPED)
        run = grouped(strangers, tmp_path)
        try:
            run.await_that(lambda: len(groups_of(strangers)) == 4, "three groups of the run")
            run.await_that(lambda: bool(groups_with_settings(strangers)), "settings of a group")
            assert run.wait() == ExitCode.PASS, run.screen
        finally:
            run.close()
        assert groups_of(strangers) == ["harness-theirs"]
        assert groups_with_settings(strangers) == []
    with Client({"bootstrap.servers": strangers.bootstrap_servers}) as client:
        client.groups.delete("harness-theirs")
        client.delete_topics(["read"])
    assert leases(tmp_path / "state") == []


@pytest.mark.long
def test_clean_deletes_the_groups_of_a_run_that_was_killed(strangers: ProcessCluster, tmp_path: Path) -> None:
    before = topics_of(strangers)
    # Members of a share group that are killed stay for 45 s, and `clean` would rightly end with a complaint until then.
    without_sharers = "".join(line for line in GROUPED.splitlines(keepends=True) if "mode: share" not in line)
    (tmp_path / "grouped.yaml").write_text(without_sharers.replace("measure_ms: 3000", "measure_ms: 60000"))
    run = grouped(strangers, tmp_path)
    try:
        run.await_that(lambda: len(groups_of(strangers)) == 2, "two groups of the run")
        run.send(signal.SIGKILL)
        run.wait()
    finally:
        run.close()
    screens = []
    deadline = time.monotonic() + 120
    while groups_of(strangers) and time.monotonic() < deadline:  # sessions of killed members must end first
        again = HarnessProcess(tmp_path, "clean")
        assert again.wait() == ExitCode.PASS, again.screen
        again.close()
        screens.append(again.stdout)
    assert groups_of(strangers) == [], screens
    assert topics_of(strangers) == before
    assert "".join(screens).count("deleted group harness-") == 2, screens
    assert leases(tmp_path / "state") == []


def groups_with_settings(cluster: ProcessCluster) -> list[str]:
    port = cluster.direct_addresses()[0].port
    answer = ask(port, ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[GROUP_RESOURCE])
    return [each.resource_name for each in answer.config_resources]


@pytest.fixture
def admin(strangers: ProcessCluster) -> Admin:
    return Admin(strangers.direct_addresses)


ONE: Any = {"partitions": 1, "replication_factor": 1, "config": {}}


def test_a_name_that_is_taken_is_refused_and_what_has_it_is_not_touched(
    strangers: ProcessCluster, admin: Admin
) -> None:
    make_foreign(strangers, "taken")
    before = topics_of(strangers)
    own = OwnTopics(admin)
    with pytest.raises(CellError, match="topic taken is there already, made by somebody else"):
        own.create("taken", **ONE)
    with pytest.raises(CellError, match="was not made by this run"):
        own.delete("taken")
    assert own.delete_all() == []
    assert topics_of(strangers) == before


def test_a_topic_that_somebody_made_after_ours_under_its_name_stays(strangers: ProcessCluster, admin: Admin) -> None:
    own = OwnTopics(admin)
    own.create("both", **ONE)
    client = Client({"bootstrap.servers": strangers.bootstrap_servers})
    client.delete_topics(["both"])
    client.close()
    make_foreign(strangers, "both")
    before = topics_of(strangers)
    assert own.delete_all() == []
    assert topics_of(strangers) == before
    with pytest.raises(CellError, match="made by somebody else"):
        own.create("both", **ONE)


def test_what_is_made_is_written_down_before_and_forgotten_when_it_is_gone(
    strangers: ProcessCluster, admin: Admin, tmp_path: Path
) -> None:
    def entries() -> list[dict[str, object]]:
        (path,) = tmp_path.glob("*.json")
        return [entry for entry in json.loads(path.read_text())["entries"] if entry["kind"] == "topic"]

    lease = Lease(tmp_path)
    own = OwnTopics(admin, ledger=lease, bootstrap_servers="b:1")
    own.create("noted", **ONE)
    (entry,) = entries()
    assert (entry["topic"], entry["bootstrap_servers"]) == ("noted", "b:1")
    assert entry["topic_id"] == admin.topic_id("noted")
    make_foreign(strangers, "taken-too")
    with pytest.raises(CellError):
        own.create("taken-too", **ONE)
    assert len(entries()) == 1
    assert own.delete_all() == []
    assert entries() == []
    lease.close()


@given(texts=st.lists(st.text(max_size=400), min_size=1, max_size=5, unique=True))
def test_own_names_are_legal_and_as_different_as_what_they_are_made_from(texts: list[str]) -> None:
    names = [own_name("harness-0123456789-2", text) for text in texts]
    assert len(set(names)) == len(texts)
    for name in names:
        longest = max((*topic_names(name, 999), copy_topic(name)), key=len)
        assert re.fullmatch(r"harness-0123456789-2-[A-Za-z0-9._-]{0,224}", longest)
        assert len(longest) <= 249


def test_no_name_without_a_mark() -> None:
    with pytest.raises(AssertionError, match="is marked"):
        assert SOUND.topic_name
