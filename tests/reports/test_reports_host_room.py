"""What a p99 is made of stands beside it: how full the host was, how much of that the load generator took, how near to
its capacity a setting was, and whether the client noted acknowledgements late."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from reports.figures.overview.host_room import host_room
from reports.judge.client_latency import noted_late
from reports.judge.host_use import host_use
from reports.judge.verdict import judge
from reports.read.model import CellFacts, Latency
from runlog.records.cell import EXTERNAL, CellKind
from tests.reports.cells import changed, document_of, stats_of
from tests.reports.sweep_facts import BASELINE, cell_facts, judged
from tests.reports.test_reports_capacity import analysed as with_ceilings
from tests.reports.test_reports_capacity import two_windows


def used(host: float, *, load: float | None = None, brokers: float | None = None, kind: str = "sweep") -> CellFacts:
    """A cell while which the host was so full."""
    own = cell_facts(BASELINE, p99_us=9_000, kind=kind, health={"cpu_share_by_process": [0.4, 0.2]})
    values = {"cpu_share": host, "load_share": load, "brokers_share": brokers}
    sample: dict[str, Any] = {
        "t_us": 5_000_000, "source": "host", "name": "resources",
        "values": {name: value for name, value in values.items() if value is not None},
    }  # fmt: skip
    return replace(own, cell=changed(own.cell, stats=(*stats_of(own.cell), sample)))


def told(*cells: CellFacts, cores: int | None = 2) -> list[str]:
    return host_room(judged(cells), None, cores)


def test_how_full_the_host_was_and_whose_load_it_was_is_told() -> None:
    full = [used(0.84, load=0.31, brokers=0.4), used(0.9, load=0.35, brokers=0.42)]
    assert told(*full) == [
        "84 to 90% of both cores were used while p99 was measured (the load generator 31 to 35%, the brokers 40 to "
        "42%): p99 is mostly waiting for the processor"
    ]
    assert told(used(0.45, load=0.2, brokers=0.15), cores=8) == [
        "45% of all 8 cores was used while p99 was measured (the load generator 20%, the brokers 15%)"
    ]
    assert told(cell_facts(BASELINE, p99_us=9_000)) == [], "not recorded"
    assert told(used(0.9, kind="ceiling"), used(0.9, kind="chaos")) == [], "no p99 is shown of them"


def test_nothing_is_said_of_brokers_that_nobody_here_can_measure() -> None:
    """Of a cluster of somebody's own stood `the brokers 0%`: they run elsewhere, or count as other programs here."""
    here = used(0.5, load=0.2, brokers=0.0)
    theirs = replace(here, cell=changed(here.cell, document={**document_of(here.cell), "engine": EXTERNAL}))
    assert told(theirs) == [
        "50% of both cores of the load's host was used while p99 was measured (the load generator 20%)"
    ]
    assert host_use(theirs).brokers is None
    assert host_use(here).brokers == 0.0


def test_an_older_run_has_the_load_generators_share_from_its_processes() -> None:
    assert told(used(0.5)) == ["50% of both cores was used while p99 was measured (the load generator 30%)"]


def test_the_share_of_each_settings_capacity_is_told() -> None:
    analysis, items = with_ceilings(two_windows(noise=0.0))
    carried: dict[str, list[float]] = {}
    for item in items:
        if item.facts.cell.kind is CellKind.CEILING:
            name = item.facts.cell.cell_id.rpartition("-")[0]
            carried.setdefault(name, []).append(item.facts.throughput_records_per_s)
    shares = sorted(3_000 / math.prod(own) ** (1 / len(own)) for own in carried.values())
    assert [text for text in host_room(items, analysis, 2) if "capacity" in text] == [
        f"p99 was measured at {100 * shares[0]:.0f} to {100 * shares[-1]:.0f}% of the capacity of each setting"
    ]


def read_by(p99_us: float | None, *, acks: str = "all", unanswered: int = 0) -> CellFacts:
    own = cell_facts({**BASELINE, "acks": acks}, p99_us=9_000)
    read = Latency(n=10_000, quantiles={"p99": p99_us}, unanswered=unanswered)
    return replace(own, latency={**own.latency, "end_to_end": read})


def test_an_acknowledgement_that_is_noted_after_the_reader_has_the_record_is_the_clients() -> None:
    late = read_by(6_000)
    sentence = (
        "its p99 is the client's: 9.0 ms until an acknowledgement was noted, and 6.0 ms until a reader had the record"
    )
    assert noted_late(late) == sentence
    assert sentence in judge(late).notes
    assert told(late, read_by(12_000)) == [
        "in 1 of 2 cells acknowledgements were noted later than a reader had the record (first "
        f"{late.cell.title}: {sentence})"
    ]


@pytest.mark.parametrize(
    "facts",
    [read_by(12_000), read_by(8_950), read_by(None), read_by(None, unanswered=500), read_by(6_000, acks="0")],
    ids=["later", "within a bin", "nobody read", "not reached", "acks=0"],
)
def test_else_nothing_is_said_of_the_client(facts: CellFacts) -> None:
    assert noted_late(facts) == ""


def test_a_schedule_lag_that_is_a_large_part_of_the_p99_is_told() -> None:
    own = cell_facts(BASELINE, p99_us=9_000)
    lagging = replace(own, latency={**own.latency, "schedule_lag": Latency(n=10_000, quantiles={"p99": 3_000.0})})
    assert "schedule lag p99 3.0 ms, 33% of the p99: the latencies contain that delay of the generator" in (
        judge(lagging).notes
    )
    assert not [note for note in judge(own).notes if "schedule lag" in note]
    assert document_of(own.cell)["kind"] == "sweep"
