"""Records of requests on fault hosts: gathered in pieces, verified, and converted to one time axis."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.hosts.host_answers import HostAnswer, HostClock, HostFaultError, RequestPiece
from harness.clusters.hosts.host_links import HostProxy, recorders
from harness.clusters.hosts.host_requests import RequestGathering
from harness.errors import EnvironmentFault
from runlog.files.clock import RunClock
from runlog.records.lines import WIRE, read_lines

CLOCKS = {"a": HostClock(offset_ns=5_000_000, error_us=40.0), "b": HostClock(offset_ns=-7_000, error_us=60.0)}
T0_NS = 1_000_000_000


def line(mono_ns: int, proxy: str, crc: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "mono_ns": mono_ns, "proxy": proxy, "client_id": "p", "topic": "harness-t", "partition": 0, "crc": crc,
        "records": 3, "attempt": 1, "outcome": "delivered", "base_offset": 0, "error_code": 0,
        "answered_ns": mono_ns + 500, **more,
    }  # fmt: skip


class Hosts:
    """What fault hosts answer, in pieces of 100 bytes."""

    def __init__(self, **lines: Sequence[dict[str, Any]]) -> None:
        self.data = {
            host: b"".join(json.dumps(each).encode() + b"\n" for each in those) for host, those in lines.items()
        }
        self.asked: list[tuple[str, str]] = []
        self.problem = ""
        self.fails: set[tuple[str, str]] = set()
        self.spoilt = 0
        self.used: list[int | None] = []

    def act_on_requests(self, action: str, host: str, *, topics: Sequence[str] = (), offset: int = 0) -> HostAnswer:
        self.asked.append((action, host))
        if (action, host) in self.fails:
            raise HostFaultError(f"{host} does not do {action}", is_certain=True)
        data = self.data[host]
        is_end = action == "requests_end"
        piece = RequestPiece(
            data=b"" if is_end else data[offset : offset + 100],
            size_bytes=len(data),
            sha256=hashlib.sha256(data + b"x" * self.spoilt).hexdigest() if is_end else "",
            problem=self.problem,
        )
        return HostAnswer(
            host=host, asked_us=0, answered_us=0, from_us=None, to_us=None, clock_error_us=None, requests=piece
        )

    def clock_over(self, host: str, first_us: int, last_us: int, *, offset_ns: int | None = None) -> HostClock:
        self.used.append(offset_ns)
        return CLOCKS[host]


def gathering(hosts: Hosts) -> RequestGathering:
    links = {host: {f"door-{host}": f"client-{number}"} for number, host in enumerate(hosts.data, start=1)}
    found = RequestGathering(hosts, links, RunClock(t0_monotonic_ns=T0_NS))
    found.begin(["harness-t"])
    return found


def test_lines_of_two_hosts_come_in_the_order_of_the_runs_time_with_their_bounds(tmp_path: Path) -> None:
    hosts = Hosts(
        a=[line(T0_NS + 5_000_000 + 2_000, "door-a"), line(T0_NS + 5_000_000 + 9_000, "door-a", crc=2)],
        b=[line(T0_NS - 7_000 + 5_000, "door-b")],
    )
    problems, notes = gathering(hosts).finish(tmp_path / "wire.jsonl")
    assert problems == []
    assert "fault host a recorded 2 batches on client-1, by a clock +5.000 ms off, within 0.040 ms" in notes
    found = read_lines(tmp_path / "wire.jsonl", WIRE, t0_monotonic_ns=T0_NS).records
    assert [(each.proxy, each.host, each.t_us, each.clock_error_us) for each in found] == [
        ("client-1", "a", 2, 40.0), ("client-2", "b", 5, 60.0), ("client-1", "a", 9, 40.0),
    ]  # fmt: skip
    assert [each.attempt for each in found] == [1, 2, 1], "the second host did not know that it was a retry"
    assert [each.answered_ns for each in found] == [T0_NS + 2_500, T0_NS + 5_500, T0_NS + 9_500]
    assert hosts.asked[-2:] == [("requests_forget", "a"), ("requests_forget", "b")]


def test_what_was_converted_while_the_cell_ran_is_converted_alike_at_its_end(tmp_path: Path) -> None:
    hosts = Hosts(a=[line(T0_NS, "door-a")])
    found = gathering(hosts)
    assert len(found.exchanges()) == 1
    found.finish(tmp_path / "wire.jsonl")
    assert hosts.used == [None, 5_000_000]


def test_a_record_that_came_in_another_way_than_it_lay_there_is_a_problem_and_is_not_forgotten(tmp_path: Path) -> None:
    hosts = Hosts(a=[line(T0_NS, "door-a")])
    hosts.spoilt = 1
    problems, _ = gathering(hosts).finish(tmp_path / "wire.jsonl")
    assert problems == ["the record of requests of fault host a came with another checksum than it has there"]
    assert ("requests_forget", "a") not in hosts.asked


def test_what_a_host_says_of_its_record_and_what_cannot_be_read_are_problems(tmp_path: Path) -> None:
    hosts = Hosts(a=[line(T0_NS, "door-a"), {"mono_ns": "x", "proxy": "door-a"}], b=[line(T0_NS, "another")])
    hosts.problem = "the proxy server that saw the requests ended by itself"
    problems, _ = gathering(hosts).finish(tmp_path / "wire.jsonl")
    assert problems == [
        f"the record of requests of fault host a is not complete: {hosts.problem}",
        f"the record of requests of fault host b is not complete: {hosts.problem}",
        "fault host a recorded 1 request(s) that cannot be read",
        "fault host b recorded 1 request(s) that cannot be read",
    ]


def test_a_host_that_does_not_answer_is_a_problem_and_the_others_are_kept(tmp_path: Path) -> None:
    hosts = Hosts(a=[line(T0_NS, "door-a")], b=[line(T0_NS, "door-b")])
    hosts.fails = {("requests_end", "a")}
    problems, _ = gathering(hosts).finish(tmp_path / "wire.jsonl")
    assert problems == ["the record of requests of fault host a: a does not do requests_end"]
    assert {each.host for each in read_lines(tmp_path / "wire.jsonl", WIRE, t0_monotonic_ns=T0_NS).records} == {"b"}


def test_without_a_hub_there_are_no_times_and_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(self: Hosts, *_: object, **__: object) -> HostClock:
        raise EnvironmentFault("the hub of the fault hosts has ended")

    monkeypatch.setattr(Hosts, "clock_over", ended)
    problems, _ = gathering(Hosts(a=[line(T0_NS, "door-a")])).finish(tmp_path / "wire.jsonl")
    assert problems == ["the record of requests has no times: the hub of the fault hosts has ended"]


def test_a_host_that_does_not_begin_is_an_error() -> None:
    hosts = Hosts(a=[])
    hosts.fails = {("requests_begin", "a")}
    with pytest.raises(HostFaultError, match="a does not do requests_begin"):
        gathering(hosts)


def proxy(host: str, broker: int, *, has_requests: bool = True) -> HostProxy:
    return HostProxy(
        host=host, name=f"door-{broker}", links=frozenset({f"client-{broker}"}), allow=frozenset(), listen="",
        upstream="", has_requests=has_requests,
    )  # fmt: skip


def test_requests_are_recorded_only_if_the_proxies_of_all_brokers_can() -> None:
    two = [proxy("a", 1), proxy("a", 2)]
    assert recorders(two, [1, 2]) == {"a": {"door-1": "client-1", "door-2": "client-2"}}
    assert recorders(two, [1, 2, 3]) == {}
    assert recorders([*two, proxy("b", 3, has_requests=False)], [1, 2, 3]) == {}
    assert recorders(two, []) == {}
