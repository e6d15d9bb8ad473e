"""From the facts of a cell to pass, fail or inconclusive, with the reasons. Pure.

The checks are in `evidence_checks`, `damage_checks` and `figure_checks`. There is never a silent pass.
"""

from __future__ import annotations

import math

from reports.evidence.configuration import configuration_of, is_acknowledged
from reports.evidence.holes import told_holes
from reports.evidence.share_groups import sentences, share_stories
from reports.judge.broker_cpu import still_warming
from reports.judge.checks import Verdict, worst
from reports.judge.client_latency import noted_late
from reports.judge.damage_checks import damage_checks
from reports.judge.evidence_checks import evidence_checks, is_usable
from reports.judge.figure_checks import figure_checks
from reports.judge.late_faults import after_the_load
from reports.judge.noise import disturbance, unsteady, untold_stalls
from reports.judge.under_holes import holes_of, under_holes
from reports.read.model import CORRECTED, SCHEDULE_LAG, CellFacts
from runlog.quality.criteria import CRITERIA
from runlog.records.hosts import clock_error_between_us, clock_error_of_gap_us, known_error_us


def judge(facts: CellFacts) -> Verdict:
    """The verdict on one cell."""
    holes = holes_of(facts)
    checks = under_holes(
        [
            *evidence_checks(facts),
            *damage_checks(facts, configuration_of(facts.cell), is_usable=is_usable(facts)),
            *figure_checks(facts),
        ],
        holes,
    )
    result = worst([check.result for check in checks])
    return Verdict(result=result, checks=checks, notes=_notes(facts), holes=holes)


def _notes(facts: CellFacts) -> tuple[str, ...]:
    outcome = facts.cell.record.outcome
    told = {hole.what for hole in told_holes(facts.cell)}
    notes = [*facts.cell.notes, *(note for note in outcome.notes if note not in told)]
    if facts.unseen:
        notes.append(
            f"{facts.unseen} acknowledged record(s) were not found, but the log was not read to its end: "
            "their fate is unknown"
        )
    lag = facts.latency[SCHEDULE_LAG].p99_us if SCHEDULE_LAG in facts.latency else None
    p99 = facts.latency[CORRECTED].p99_us if CORRECTED in facts.latency else None
    if lag is not None and lag > CRITERIA.schedule_lag_us_p99_max:
        notes.append(f"schedule lag p99 {lag / 1000:.0f} ms: the latencies contain that delay of the generator")
    elif lag is not None and p99 and lag > CRITERIA.schedule_lag_p99_share_max * p99:
        notes.append(
            f"schedule lag p99 {lag / 1000:.1f} ms, {lag / p99:.0%} of the p99: the latencies contain that delay of "
            "the generator"
        )
    if late := noted_late(facts):
        notes.append(late)
    notes += [sentence for story in share_stories(facts.cell) for sentence in sentences(story)]
    notes += _of_load_hosts(facts)
    marks = (
        after_the_load(facts), disturbance(facts), unsteady(facts), untold_stalls(facts),
    )  # fmt: skip
    notes += [mark for mark in marks if mark]
    warming = still_warming(facts)
    if warming:
        notes.append(warming)
    unheard = facts.set_count("lost_unacked")
    if unheard and not is_acknowledged(facts.cell):
        notes.append(
            f"{unheard} record(s) that the client counted as sent are not in the log: with acks=0 nobody hears of it, "
            "and no promise was broken"
        )
    removed = facts.set_count("removed")
    if removed:
        notes.append(
            f"{removed} record(s) were removed before the final read, as they may be "
            f"({', '.join(facts.removed_by)}): they are not lost. Duplicates and order are judged by what was left"
        )
    recovered = facts.set_count("recovered")
    if recovered:
        notes.append(f"{recovered} record(s) without an acknowledgement were found in the log (recovered)")
    negative = sum(latency.negative for latency in facts.latency.values())
    if negative:
        notes.append(f"up to {negative} latencies are negative: the clocks of the processes disagree")
    return tuple(notes)


def _of_load_hosts(facts: CellFacts) -> list[str]:
    """Who ran what, and how exact latencies between two hosts are."""
    hosts = facts.cell.record.outcome.load_hosts
    if not hosts:
        return []
    lines = []
    for host in hosts:
        numbers = ", ".join(str(number) for number in host.producers)
        readers = f", readers {', '.join(str(number) for number in host.consumers)}" if host.consumers else ""
        off = (
            f"; clock {host.clock.offset_us / 1e3:+.3f} ms, within {host.clock.error_us / 1e3:.3f} ms"
            if host.clock and not host.clock.problem
            else ""
        )
        lines.append(f"load host {host.name}: producers {numbers}{readers}{off}")
    error_us, gap_us = clock_error_between_us(hosts), clock_error_of_gap_us(hosts)
    if math.isinf(error_us):
        lines.append("end-to-end latencies between two load hosts are not shown: no bound of their clocks is known")
    elif error_us:
        lines.append(
            f"end-to-end latencies between two load hosts can be wrong by up to {error_us / 1e3:.3f} ms: so far "
            "their clocks may disagree. Those that are not above that are not shown. Latencies to the acknowledgement "
            "are of one clock each"
        )
    if known_error_us(gap_us):
        lines.append(f"the longest time without an acknowledgement can be wrong by up to {gap_us / 1e3:.3f} ms")
    return lines
