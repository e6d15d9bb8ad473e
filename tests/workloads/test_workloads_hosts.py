"""A hub and three load hosts, with a real broker: what the plan asks for arrives once, with each host's part told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.clusters.ports import free_port
from runlog.streams.compact import compact_cell
from runlog.streams.parquet import read_stream
from tests.patience import wait_until
from tests.workloads.load_hosts import WAIT_S, Agent, Hub, Link, keys
from tests.workloads.namespace import Namespace, why_not
from tests.workloads.reference_broker import ReferenceBroker

WORKLOAD: dict[str, Any] = {
    "rate_per_s": 900, "record_size_bytes": 100, "producers": 3, "consumers": 3, "warmup_ms": 500,
    "measure_ms": 3000, "drain_ms": 120_000,
}  # fmt: skip
RECORDS = 900 * 3.5
# What a slow host makes of a share that was done: it says so, and that is right.
SLOW = {"behind", "cut"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceBroker]:
    broker = ReferenceBroker(tmp_path_factory.mktemp("broker"))
    yield broker
    broker.stop()


class Hosts:
    """A hub and load hosts a, b and c, each over a link of its own."""

    def __init__(self, directory: Path, names: str = "abc", *, delay_ms: float = 0.0, jitter_ms: float = 0.0) -> None:
        self.directory = directory
        self.master_key, self.worker_key = keys()
        self.port = free_port()
        self.hub = Hub(directory, self.master_key, self.port)
        self.links = {
            name: Link(("127.0.0.1", self.port), there_ms=delay_ms, back_ms=delay_ms, jitter_ms=jitter_ms)
            for name in names
        }
        self.agents = {name: self.agent(name) for name in names}

    def agent(self, name: str, **more: Any) -> Agent:
        return Agent(self.directory, self.worker_key, self.links[name].port, name, **more)

    def close(self) -> None:
        for agent in self.agents.values():
            agent.close()
        self.hub.close()
        for link in self.links.values():
            link.close()


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    found = Hosts(tmp_path)
    yield found
    found.close()


@pytest.fixture
def far_hosts(tmp_path: Path) -> Iterator[Hosts]:
    found = Hosts(tmp_path, delay_ms=20.0, jitter_ms=5.0)
    yield found
    found.close()


def assert_done(shares: Sequence[dict[str, Any]]) -> None:
    """Every share was done to the end and gathered. A host that was too slow for its schedule says that it was."""
    for share in shares:
        assert share["state"] == "done" or (share["state"] in SLOW and share["reason"]), shares
        assert share["is_gathered"], shares


def received_of(hub: Hub) -> int:
    """What the readers counted at the end of the last cell."""
    told = [event["progress"]["received"] for event in hub.told if event["event"] == "progress"]
    return int(told[-1])


def sent_rows(hub: Hub, cell_id: str = "c1") -> dict[str, Any]:
    compact_cell(hub.run_dir, cell_id)
    table = read_stream(hub.run_dir, "send", cell_id)
    return {name: table[name].to_numpy() for name in table.column_names}


def assert_dense(rows: dict[str, Any], producers: int) -> None:
    """Every record that a producer handed over has one row."""
    for producer in range(producers):
        seqs = np.sort(rows["seq"][rows["producer"] == producer])
        assert len(seqs) > 0
        assert (seqs == np.arange(len(seqs))).all()


@pytest.mark.slow
@pytest.mark.long
def test_three_far_hosts_send_the_whole_schedule_and_every_record_is_gathered_once(
    far_hosts: Hosts, broker: ReferenceBroker
) -> None:
    broker.create_topics("far")
    hub = far_hosts.hub
    assert [host["name"] for host in hub.wait_hosts(3)] == ["a", "b", "c"]
    hub.begin(WORKLOAD, broker.address, "far")
    done = hub.next_of("done")
    shares = hub.finish()
    assert_done(shares)
    assert [(share["name"], share["producers"], share["consumers"]) for share in shares] == [
        ("a", [0], [0]), ("b", [1], [1]), ("c", [2], [2]),
    ], shares  # fmt: skip
    assert all(share["files"] >= 3 for share in shares)
    rows = sent_rows(hub)
    assert len(rows["seq"]) == RECORDS
    assert (rows["status"] == 0).all()
    assert_dense(rows, 3)
    assert sum(end["high_seq"] + 1 for end in done["producers"]) == len(rows["seq"])
    received = read_stream(hub.run_dir, "recv", "c1")
    assert received.num_rows == received_of(hub) > 0
    # All of it on one time axis: this is one machine, so every true offset is 0.
    for share in shares:
        clock = share["clock"]
        assert abs(clock["offset_us"]) <= clock["error_us"]
        assert clock["round_trip_us_min"] >= 30_000
        assert clock["samples"] >= 20
    latest_error_us = max(share["clock"]["error_us"] for share in shares)
    late_us = received["polled_us"].to_numpy() - received["intended_us"].to_numpy()
    assert late_us.min() >= -2 * latest_error_us
    stats = (hub.run_dir / "cells" / "c1" / "stats.jsonl").read_text()
    assert {f'"source":"{name}"' in stats for name in "abc"} == {True}
    spool = far_hosts.directory / "spool-a"
    assert list(spool.glob("**/*.seg")), "a harness that dies now must still find it"
    hub.say({"do": "forget"})
    wait_until(lambda: not list(spool.glob("**/*.seg")), "what the harness has is removed", WAIT_S)
    # The next cell on the same hosts.
    broker.create_topics("again")
    hub.begin(WORKLOAD, broker.address, "again", cell_id="c2")
    assert_done(hub.finish())


@pytest.mark.slow
@pytest.mark.long
def test_what_a_killed_worker_has_sent_is_gathered_from_the_one_that_is_started_anew(
    hosts: Hosts, broker: ReferenceBroker
) -> None:
    """Nobody asked it: the questions went to the address of the one that was killed."""
    broker.create_topics("restarted")
    hub = hosts.hub
    hub.wait_hosts(3)
    hub.begin({**WORKLOAD, "measure_ms": 15_000, "drain_ms": 3000}, broker.address, "restarted")
    hub.wait_phase("measure")
    while hub.next_of("progress")["progress"]["acked"] < 900:  # a second's
        pass
    hosts.agents["b"].kill()
    hosts.agents["b"] = hosts.agent("b")
    hub.next_of("done")
    shares = {share["name"]: share for share in hub.finish()}
    assert shares["b"]["state"] == "dead", shares
    assert "started anew" in shares["b"]["reason"]
    assert shares["b"]["is_gathered"]
    assert_done([shares[name] for name in "ac"])
    rows = sent_rows(hub)
    of_killed = rows["seq"][rows["producer"] == 1]
    assert len(of_killed) > 0
    assert sorted(of_killed.tolist()) == list(range(len(of_killed))), "each of its records has a fate"


SKEWS_NS = {"a": 5_000_000, "b": -5_000_000, "c": 3_600_000_000_000}


@pytest.mark.slow
@pytest.mark.long
def test_load_hosts_in_namespaces_with_planted_clocks_share_one_time_axis(tmp_path: Path) -> None:
    """Three network namespaces behind links of 20 ms with jitter, with clocks that are 5 ms, -5 ms and an hour off."""
    if why := why_not():
        pytest.skip(why)
    namespaces: dict[str, Namespace] = {}
    closing: list[Any] = []
    try:
        for name in SKEWS_NS:
            namespaces[name] = Namespace()
        (tmp_path / "broker").mkdir()
        broker = ReferenceBroker(tmp_path / "broker", {"harness.allow.remote": "true"}, host=namespaces["a"].here)
        closing.append(broker.stop)
        broker.create_topics("spaces")
        master_key, worker_key = keys()
        port = free_port()
        hub = Hub(tmp_path, master_key, port)
        closing.append(hub.close)
        for name, space in namespaces.items():
            link = Link(("127.0.0.1", port), there_ms=25.0, back_ms=15.0, jitter_ms=5.0, host=space.here)
            closing.append(link.close)
            agent = Agent(tmp_path, worker_key, link.port, name, host=space.here, prefix=space.prefix(SKEWS_NS[name]))
            closing.append(agent.close)
        hub.wait_hosts(3)
        hub.begin(WORKLOAD, broker.address, "spaces")
        hub.next_of("done")
        shares = {share["name"]: share for share in hub.finish()}
        assert_done(list(shares.values()))
        for name, share in shares.items():
            clock = share["clock"]
            assert abs(clock["offset_us"] - SKEWS_NS[name] / 1000) <= clock["error_us"], (name, clock)
            assert clock["round_trip_us_min"] >= 40_000
        rows = sent_rows(hub)
        assert len(rows["seq"]) == RECORDS
        assert_dense(rows, 3)
        received = read_stream(hub.run_dir, "recv", "c1")
        errors_us = sorted(share["clock"]["error_us"] for share in shares.values())
        late_us = received["polled_us"].to_numpy() - received["intended_us"].to_numpy()
        assert len(late_us) == received_of(hub) > 0
        assert late_us.min() >= -(errors_us[-1] + errors_us[-2]), "an hour or 5 ms would show here"
    finally:
        for close in reversed(closing):
            close()
        for space in namespaces.values():
            space.close()
