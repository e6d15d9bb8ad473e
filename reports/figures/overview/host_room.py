"""What a p99 of this run is made of: how full the host was, how much of that was the load generator, how near to its
capacity each setting was, and whether the client noted its acknowledgements late. Pure.

Shown by tests/reports/test_reports_host_room.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from reports.figures.sweep.observations import CAPACITY
from reports.figures.sweep.sweep_analysis import SweepAnalysis
from reports.judge.client_latency import noted_late
from reports.judge.host_use import host_use
from reports.judge.judged import Judged
from reports.read.model import CORRECTED, CellFacts
from runlog.records.cell import EXTERNAL, CellKind

# A queue for two cores, three quarters of which are used, is as long as the service itself and more.
FULL: Final = 0.7


def host_room(judged: Sequence[Judged], analysis: SweepAnalysis | None, cores: int | None) -> list[str]:
    """A sentence each, none about what was not recorded."""
    calm = (CellKind.CHAOS, CellKind.CEILING)
    paced = [
        item.facts
        for item in judged
        if item.facts.cell.kind not in calm
        and CORRECTED in item.facts.latency
        and item.facts.latency[CORRECTED].us_of("p99") is not None
    ]
    return [*_used(paced, cores), *_of_capacity(analysis), *_of_the_client(paced)]


def _used(paced: Sequence[CellFacts], cores: int | None) -> list[str]:
    used = [host_use(facts, cores) for facts in paced]
    host = [one.host for one in used if one.host is not None]
    if not host:
        return []
    which = "both cores" if cores == 2 else "all cores" if cores is None else f"all {cores} cores"
    if any(facts.cell.record.engine == EXTERNAL for facts in paced):
        which = f"{which} of the load's host"
    shares = ((("load generator", [one.load for one in used])), ("brokers", [one.brokers for one in used]))
    parts = [f"the {name} {_range(known)}" for name, found in shares if (known := [x for x in found if x is not None])]
    by_whom = f" ({', '.join(parts)})" if parts else ""
    text = f"{_range(host)} of {which} {'was' if len(host) == 1 else 'were'} used while p99 was measured{by_whom}"
    return [f"{text}: p99 is mostly waiting for the processor" if max(host) >= FULL else text]


def _of_capacity(analysis: SweepAnalysis | None) -> list[str]:
    if analysis is None:
        return []
    asked = {item.configuration: item.asked_per_s for item in analysis.observations if not item.at_ceiling}
    shares = [
        rate / point.levels[CAPACITY].ratio[0]
        for point in analysis.points
        if CAPACITY in point.levels and (rate := asked.get(point.configuration))
    ]
    if not shares:
        return []
    each = "its capacity" if len(shares) == 1 else "the capacity of each setting"
    return [f"p99 was measured at {_range(shares)} of {each}"]


def _of_the_client(paced: Sequence[CellFacts]) -> list[str]:
    late = [(facts, why) for facts in paced if (why := noted_late(facts))]
    if not late:
        return []
    first, why = late[0]
    return [
        f"in {len(late)} of {len(paced)} cells acknowledgements were noted later than a reader had the record (first "
        f"{first.cell.title}: {why})"
    ]


def _range(shares: Iterable[float]) -> str:
    found = sorted(shares)
    low, high = f"{found[0]:.0%}", f"{found[-1]:.0%}"
    return low if low == high else f"{low.removesuffix('%')} to {high}"
