"""`--cluster docker`: real containers on a network of their own, every fault that only containers have, nothing left.

Skipped where no engine answers or the image was not built (`make test-docker` sees to both); nothing is ever pulled.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.door.clients import Producer
from chaos import cgroup
from chaos.faults import FAULTS
from chaos.faults.processes import identities, prove_gone, prove_stopped
from chaos.lease import is_alive
from chaos.targets import PartitionOfInterest
from harness.clusters.base import ClusterKey
from harness.clusters.docker import engine
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.factory import build_cluster
from harness.clusters.requests.admin import Admin
from harness.errors import EnvironmentFault, ExitCode
from runlog.files.paths import events_path
from tests.harness.harness_process import HarnessProcess
from tests.harness.no_load import port_of
from tests.json_lines import read_jsonl

pytestmark = [pytest.mark.slow, pytest.mark.docker]
TOPIC = "in-containers"


@pytest.fixture(scope="module", autouse=True)
def docker_engine() -> None:
    try:
        client = engine.connect()
        engine.image(client)
        client.close()
    except EnvironmentFault as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCluster]:
    settings = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300"}
    key = ClusterKey(engine="docker", proxied=True, brokers=3, settings=tuple(sorted(settings.items())))
    running = build_cluster(key, tmp_path_factory.mktemp("docker"), proxy_choice="embedded", lease=None, seed=1)
    assert isinstance(running, DockerCluster)
    try:
        running.start()
        Admin(running.direct_addresses).create_topic(
            TOPIC, partitions=1, replication_factor=3, config={"min.insync.replicas": "2"}
        )
        assert running.wait_healthy(TOPIC, timeout_s=20)
        yield running
    finally:
        running.stop()
    assert own_containers() == []


@pytest.fixture(autouse=True)
def healed(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "cluster" in request.fixturenames:
        running: DockerCluster = request.getfixturevalue("cluster")
        running.ensure_all_running()
        assert running.wait_healthy(TOPIC, timeout_s=30), "every fault can be undone"


def own_containers() -> list[str]:
    client = engine.connect()
    try:
        labels = {"label": f"{engine.OWNER_LABEL}={engine.owner_labels()[engine.OWNER_LABEL]}"}
        found = client.containers.list(all=True, filters=labels) + client.networks.list(filters=labels)
        return [item.name for item in found]
    finally:
        client.close()


def produce(cluster: DockerCluster, *, timeout_ms: int = 20_000, size_bytes: int = 5) -> int:
    """Offset of one acknowledged record, through the clients' proxies."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "delivery.timeout.ms": timeout_ms,
         "request.timeout.ms": timeout_ms // 2}
    )  # fmt: skip
    try:
        return int(producer.send(TOPIC, b"v" * size_bytes).get(timeout_ms / 1000 + 5).offset)
    finally:
        producer.close(1.0)


def await_that(condition: Callable[[], bool], what: str, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.05)


def test_records_pass_and_journals_are_read_from_outside(cluster: DockerCluster) -> None:
    assert produce(cluster) >= 0
    assert "Docker bridge" in cluster.path_description
    kinds = {event["kind"] for path in cluster.journal_paths().values() for event in read_jsonl(path)}
    assert {"started", "became_leader", "isr_changed"} & kinds
    assert len(own_containers()) == 4, "three containers and their network"


def test_a_killed_leader_is_replaced_and_comes_back(cluster: DockerCluster) -> None:
    leader = cluster.leader(TOPIC, 0)
    assert leader is not None
    before = identities(cluster, [leader])
    offset = produce(cluster)
    cluster.kill(leader)
    assert prove_gone(cluster, before).is_effective
    await_that(lambda: cluster.leader(TOPIC, 0) not in (None, leader), "another leader")
    assert produce(cluster) > offset


def test_a_paused_follower_is_proved_and_leaves_the_isr(cluster: DockerCluster) -> None:
    leader = cluster.leader(TOPIC, 0)
    follower = next(broker for broker in cluster.broker_ids if broker != leader)
    before = identities(cluster, [follower])
    assert not prove_stopped(cluster, before).is_effective
    cluster.pause(follower)
    await_that(lambda: prove_stopped(cluster, before).is_effective, "the freezer has stopped it", 2)
    await_that(lambda: follower not in cluster.isr(TOPIC, 0), "an ISR without it")
    cluster.resume(follower)
    await_that(lambda: follower in cluster.isr(TOPIC, 0), "it is back")


def test_a_disconnected_leader_is_unreachable_but_alive(cluster: DockerCluster) -> None:
    leader = cluster.leader(TOPIC, 0)
    assert leader is not None
    before = identities(cluster, [leader])
    cluster.disconnect(leader)
    try:
        assert cluster.state_seen_by(leader, TOPIC) is None
        assert all(map(is_alive, before.values()))
        await_that(lambda: cluster.leader(TOPIC, 0) not in (None, leader), "another leader")
    finally:
        cluster.reconnect(leader)
    await_that(lambda: cluster.state_seen_by(leader, TOPIC) is not None, "it answers at its old address")


def test_limits_of_cpu_and_memory_reach_the_kernel(cluster: DockerCluster) -> None:
    pid = cluster.pids()[1]
    cluster.limit_cpu(1, 0.25)
    cluster.limit_memory(1, 512 << 20)
    try:
        assert cgroup.cpu_cores_max(pid) == 0.25
        assert cgroup.memory_bytes_max(pid) == 512 << 20
        assert 0 < cgroup.anonymous_bytes(pid) < 512 << 20
        assert produce(cluster) >= 0, "slower, but it works"
    finally:
        cluster.limit_cpu(1, None)
        cluster.limit_memory(1, None)
    assert cgroup.cpu_cores_max(pid) == os.cpu_count()


@pytest.mark.parametrize("name", ["disconnect", "limit_cpu", "limit_memory"])
def test_a_fault_on_a_container_is_proved_by_the_kernel_and_only_while_it_lasts(
    cluster: DockerCluster, name: str
) -> None:
    spec = FAULTS[name]
    context = spec.context("leader", port_of(cluster), PartitionOfInterest(topic=TOPIC), None, "in-a-test")
    fault = spec.make(context, spec.parameters)
    assert not fault.prove().is_effective, "nothing has been injected yet"
    fault.inject()
    deadline = time.monotonic() + 30
    try:
        # Somebody must want CPU and memory for a limit to be felt.
        while name != "disconnect" and time.monotonic() < deadline and not fault.prove().is_effective:
            produce(cluster, size_bytes=500_000)
        assert fault.prove().is_effective, fault.prove()
    finally:
        fault.heal()
    fault.heal()  # twice does nothing
    if name == "disconnect":
        assert not fault.prove().is_effective
        await_that(lambda: cluster.state_seen_by(context.brokers[0], TOPIC) is not None, "it answers again")


def verdict(tmp_path: Path, scenario: str, case: str) -> dict[str, Any]:
    """The one cell of a scenario that must pass on this cluster."""
    arguments = ["chaos", scenario, "--case", case, "--cluster", "docker", "--toxiproxy", "embedded"]
    process = HarnessProcess(tmp_path, *arguments, "--run-dir", "run")
    try:
        assert process.wait() == ExitCode.PASS, process.screen + process.stdout
    finally:
        process.close()
    (cell,) = json.loads((tmp_path / "run" / "results" / "verdicts.json").read_text())["cells"]
    return dict(cell)


@pytest.mark.parametrize(
    ("scenario", "case", "damage"),
    [("leader-loss", "acks-1", "lost"), ("response-lost", "idempotence-off", "duplicated")],
)
def test_a_scenario_does_the_predicted_damage_in_containers(
    tmp_path: Path, scenario: str, case: str, damage: str
) -> None:
    sets = verdict(tmp_path, scenario, case)["predicted"][damage]
    assert sets["predicted"] == sets["observed"] > 0
    assert sets["only_predicted"] == sets["only_observed"] == 0


def test_a_scenario_starves_and_unplugs_a_container_with_every_effect_proved(tmp_path: Path) -> None:
    cell = verdict(tmp_path, "starved-leader", "acks-all")
    events = list(read_jsonl(events_path(tmp_path / "run", cell["cell_id"], "faults")))
    assert {event["kind"] for event in events if event["phase"] == "proved"} >= {
        "disconnect", "limit_cpu", "limit_memory"
    }  # fmt: skip


def test_what_a_killed_harness_leaves_in_the_engine_is_removed(tmp_path: Path) -> None:
    process = HarnessProcess(tmp_path, "run", "smoke", "--cluster", "docker", "--run-dir", "run", "--no-report")
    try:
        process.await_text("· connect")
        process.send(signal.SIGKILL)
        process.wait()
        cleaning = HarnessProcess(tmp_path, "clean")
        assert cleaning.wait() == ExitCode.PASS
        assert cleaning.stdout.count("removed container kafka-harness-") == 3
        assert cleaning.stdout.count("removed network kafka-harness-") == 1
        assert process.family() == {}
        cleaning.close()
    finally:
        process.close()
