"""Warns if figures of speed have little data: few records, short windows, few repetitions, few cores. Pure.

Shown by tests/reports/test_reports_rests_on.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reports.figures.overview.host_room import host_room
from reports.figures.sweep.recommendation_words import REPETITIONS_TO_DECIDE
from reports.figures.sweep.sweep_analysis import SweepAnalysis
from reports.judge.judged import Judged
from reports.read.model import CORRECTED, CellFacts
from runlog.records.cell import CellKind

FEW_BEYOND: Final = 100  # records beyond a p99: with fewer a single stall of the host can make it
LOOPBACK: Final = "loopback"  # as a cell names its path where no proxy and no network lies between


def speed_rests_on(judged: Sequence[Judged], analysis: SweepAnalysis | None, cores: int | None) -> list[str]:
    """The warnings about cells without faults. `cores` is the number of cores that the harness may use."""
    calm = [item.facts for item in judged if item.facts.cell.kind is not CellKind.CHAOS]
    paced = [facts for facts in calm if facts.cell.kind is not CellKind.CEILING]
    return [*host_room(judged, analysis, cores), *_records(paced), *_repetitions(analysis), *_one_host(calm, cores)]


def _records(paced: Sequence[CellFacts]) -> list[str]:
    """A warning about the cell with the fewest records beyond its p99."""
    known = [facts for facts in paced if CORRECTED in facts.latency and facts.latency[CORRECTED].p99_us is not None]
    if not known:
        return []
    least = min(known, key=lambda facts: facts.latency[CORRECTED].n)
    records = least.latency[CORRECTED].n
    beyond = records // 100
    if beyond >= FEW_BEYOND:
        return []
    start_us, end_us = least.cell.window_us()
    each = "the p99 rests" if len(known) == 1 else "a p99 rests"
    return [
        f"{each} on few records: on {records:,} in a window of {(end_us - start_us) / 1e6:.1f} s, "
        f"{beyond} of them slower than it, in the cell with the fewest"
    ]


def _repetitions(analysis: SweepAnalysis | None) -> list[str]:
    if analysis is None or not 1 < analysis.repetitions < REPETITIONS_TO_DECIDE:
        return []
    return [
        f"each setting was measured {analysis.repetitions} times: how far repetitions scatter is hardly known from so "
        "few, and only large differences can be seen"
    ]


def _one_host(calm: Sequence[CellFacts], cores: int | None) -> list[str]:
    if not calm or any(facts.cell.record.path != LOOPBACK for facts in calm):
        return []
    shared = "the cores of one host" if cores is None else f"{cores} core{'s' if cores != 1 else ''} of one host"
    return [
        f"brokers, load generator and readers shared {shared}, and every record went over loopback: a network and "
        "disks of its own would change the figures, and so would more cores"
    ]
