"""Clients that go through proxies of fault hosts: these record requests and carry Kafka toxics, and predictions of
duplicates, of order and of what a deposed leader answered hold. Real brokers, workers and proxies."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chaos
from broker.door.clients import Producer
from harness.clusters.hosts.host_answers import HostFaultError
from harness.clusters.requests.admin import Admin
from harness.errors import EnvironmentFault
from runlog.files.clock import RunClock
from runlog.records.lines import WIRE, read_lines
from runlog.records.wire import WireOutcome
from tests.harness.load_workers import PASS_OR_INCONCLUSIVE, Workers, assert_passed, harness, said
from tests.harness.test_harness_host_links import TOPIC, Operator, Run
from tests.patience import wait_until

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    found = Operator(tmp_path_factory.mktemp("operator"), requests=True)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def run(tmp_path: Path, operator: Operator) -> Iterator[Run]:
    found = Run(tmp_path, operator, clients_elsewhere=True)
    try:
        admin = Admin(found.cluster.direct_addresses)
        if admin.topic_id(TOPIC) is None:
            admin.create_topic(TOPIC, partitions=1, replication_factor=3, config={})
        wait_until(lambda: len(found.isr()) == 3, "all replicas are in sync")
        yield found
    finally:
        found.close()


def send(run: Run, topic: str, values: list[bytes]) -> None:
    """Each in a batch of its own."""
    properties = {"bootstrap.servers": run.cluster.bootstrap_servers, "acks": "all", "client.id": "sender"}
    with Producer(properties) as producer:
        for value in values:
            producer.send(topic, value)
            assert producer.flush(60) == 0


def test_requests_of_the_runs_topics_are_recorded_and_no_others(tmp_path: Path, run: Run) -> None:
    admin = Admin(run.cluster.direct_addresses)
    if admin.topic_id("orders") is None:
        admin.create_topic("orders", partitions=1, replication_factor=3, config={})
    assert "records requests of client-1" in run.said[-1]
    assert run.cluster.requests_are_recorded
    began_us = time.monotonic_ns() // 1000
    clock = RunClock(t0_monotonic_ns=run.hosts._t0_ns)
    with pytest.raises(HostFaultError, match="topic orders: it is no topic of a run"):
        gathering = run.cluster.request_gathering(clock)
        assert gathering is not None
        gathering.begin(["orders"])
    gathering = run.cluster.request_gathering(clock)
    assert gathering is not None
    gathering.begin([TOPIC])
    dropped = run.fault("kafka_drop_response", "client->leader", count=1)
    dropped.inject()
    send(run, TOPIC, [b"a", b"b", b"c"])
    send(run, "orders", [b"secret"])
    proof = dropped.prove()
    assert proof.is_effective, proof
    assert proof.detail["acted"] == 1
    dropped.heal()
    gathering.fetch()
    problems, notes = gathering.finish(tmp_path / "wire.jsonl")
    assert problems == []
    assert len(notes) == 3
    found = read_lines(tmp_path / "wire.jsonl", WIRE, t0_monotonic_ns=clock.t0_monotonic_ns).records
    assert {line.topic for line in found} == {TOPIC}
    assert [line.outcome for line in found].count(WireOutcome.DROPPED) == 1
    assert {line.proxy for line in found} == {f"client-{run.leader()}"}
    assert {line.host for line in found} == {f"host-{run.leader()}"}
    for line in found:
        error_us = line.clock_error_us
        assert error_us is not None
        assert 0 < error_us < 1_000_000
        assert began_us - clock.t0_monotonic_ns // 1000 - error_us <= line.t_us <= clock.now_us() + error_us
    with pytest.raises(HostFaultError, match="no requests are recorded"):
        run.hosts.act_on_requests("requests_piece", f"host-{run.leader()}")


def test_a_proxy_server_that_ended_leaves_a_record_with_a_hole_and_it_is_said(tmp_path: Path, run: Run) -> None:
    gathering = run.cluster.request_gathering(RunClock(t0_monotonic_ns=run.hosts._t0_ns))
    assert gathering is not None
    gathering.begin([TOPIC])
    state = run.operator.workers.directory / "state-1" / "kafka-harness" / "fault-leases"
    document = json.loads((state / "host-1.requests.proxies.json").read_text())
    run.operator.strangers.kill_pid(document["pid"])
    log = run.operator.workers.log(1)
    wait_until(lambda: "had ended: another one was started" in log.read_text(), "the worker starts it again")
    problems, _ = gathering.finish(tmp_path / "wire.jsonl")
    assert problems == [
        "the record of requests of fault host host-1 is not complete: the proxy server that saw the requests ended by "
        "itself"
    ]
    wait_until(lambda: len(run.isr()) == 3, "all are in sync")


def test_a_direct_way_stays_while_the_links_of_all_clients_are_cut(tmp_path: Path, operator: Operator) -> None:
    strangers = operator.strangers
    run = Run(tmp_path, operator, clients_elsewhere=True, direct_bootstrap_servers=strangers.direct_bootstrap_servers)
    cuts = [run.fault("link_cut", f"client->broker:{broker}") for broker in (1, 2, 3)]
    try:
        cluster = run.cluster
        assert cluster.bootstrap_servers == strangers.bootstrap_servers, "clients go through the proxies"
        for cut in cuts:
            cut.inject()
            assert cut.prove().is_effective
        state = cluster.state(None)
        assert state is not None
        assert state.brokers == (1, 2, 3)
        assert cluster.wait_healthy(None, timeout_s=60)
        for cut in cuts:
            cut.heal()
    finally:
        run.close()


def test_a_direct_way_to_other_brokers_is_refused(tmp_path: Path, operator: Operator) -> None:
    with pytest.raises(EnvironmentFault, match=r"--direct-bootstrap-server 127\.0\.0\.1:1: nobody answers"):
        Run(tmp_path, operator, clients_elsewhere=True, direct_bootstrap_servers="127.0.0.1:1")


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(1_800)
def test_duplicates_order_and_a_deposed_leader_are_predicted_from_what_fault_hosts_saw(
    tmp_path: Path, operator: Operator
) -> None:
    suite = suite_of(tmp_path, "response-lost", "request-refused", "isolated-leader")
    workers = Workers(tmp_path, "a", "b", keys=operator.workers.keys)
    run_dir = tmp_path / "run"
    try:
        done = harness(
            tmp_path,
            [
                "run", str(suite), "--no-certify", "--yes", "--cluster", "external", "--bootstrap-server",
                operator.strangers.bootstrap_servers, "--direct-bootstrap-server",
                operator.strangers.direct_bootstrap_servers, "--run-dir", str(run_dir), *operator.workers.options,
                *workers.options[:4],
            ],
        )  # fmt: skip
        assert done.returncode in PASS_OR_INCONCLUSIVE, said(done)
    finally:
        workers.close()
    check_predictions(run_dir)


def suite_of(directory: Path, *names: str) -> Path:
    """The package's scenarios with a producer for each load host."""
    entries = []
    for name in names:
        text = (Path(chaos.__file__).parent / "scenarios" / f"{name}.yaml").read_text()
        assert text.count("producers: 1,") == 1
        path = directory / f"{name}.yaml"
        path.write_text(text.replace("producers: 1,", "producers: 2,"))
        entries.append({"scenario": str(path)})
    suite = directory / "suite.yaml"
    suite.write_text(json.dumps({"name": "records", "workload": {"rate_per_s": 1000}, "chaos": entries}))
    return suite


def check_predictions(run_dir: Path, *kinds: str) -> None:
    """Each kind of damage occurs exactly where it is predicted, from what fault hosts recorded."""
    cells: list[dict[str, Any]] = json.loads((run_dir / "results" / "verdicts.json").read_text())["cells"]
    assert_passed(cells)
    seen = dict.fromkeys(kinds or ("lost", "duplicated", "reordered"), 0)
    for cell in cells:
        for kind in seen:
            if cell[kind]:
                assert cell["predicted"][kind]["both"] == cell[kind], (cell["cell_id"], kind)
                seen[kind] += 1
        lines = read_lines(run_dir / "cells" / cell["cell_id"] / "wire.jsonl", WIRE).records
        assert lines
        assert all(line.host and line.clock_error_us for line in lines)
    assert all(seen.values()), seen
