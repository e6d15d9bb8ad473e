"""Whether a cell's figures of speed can be used, and whether they keep a scenario's limits. Pure.

Thresholds are in runlog/quality/criteria.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from reports.evidence.asked import achieved_ratio, schedule_kind
from reports.evidence.configuration import is_idempotent
from reports.judge.cell_values import GAP, is_certain, span_of
from reports.judge.checks import FAIL, INCONCLUSIVE, PASS, Check, check
from reports.judge.holes import EVERYTHING, RESTS_OF_CHECKS, RESTS_OF_CRITERIA
from reports.judge.noise import unsteady
from reports.read.model import CellFacts
from runlog.quality.criteria import CRITERIA
from runlog.quality.steadiness import CHANGING_KINDS
from runlog.records.cell import CellKind, CriterionRecord

READER_LATE: Final = "a reader late"  # a scenario's word
# Clients of ours that are no part of the load process; a test compares them with the table of programs.
_APART: Final = frozenset({"java", "franz-go", "sarama", "kafkajs", "librdkafka"})
AREA: Final = "area_record_seconds"
_LIMIT_FIGURES: Final[Mapping[str, str]] = {  # a scenario's word for a figure -> that of a suite's limit
    "gap": GAP, "detect": "detect_ms", "elect": "elect_ms", "first ack": "first_ack_ms", "recover": "recover_ms",
    "area": AREA,
}  # fmt: skip


def figure_checks(facts: CellFacts) -> list[Check]:
    checks = _criteria(facts)
    if facts.cell.kind in (CellKind.CHAOS, CellKind.SEARCH):  # a try above the limit falls behind, as it should
        return checks
    own = (_measured(facts), _generator(facts), _steady(facts))
    return [*checks, *(replace(one, rests=RESTS_OF_CHECKS[one.name]) for one in own)]


def generator_ceiling_per_s(facts: CellFacts) -> float | None:
    """What the generator reached by itself with this cell's own settings and records (self-certification). None: not
    measured, or only for another shape. With another batch.size, for example, it may reach several times as much."""
    certificate = facts.cell.record.certificate
    value = None if certificate.exact is False else certificate.records_per_s
    return float(value) if value is not None and value > 0 else None


def ceiling_share(facts: CellFacts) -> float | None:
    """The cell's rate over the ceiling of its generator."""
    ceiling = generator_ceiling_per_s(facts)
    return facts.throughput_records_per_s / ceiling if ceiling else None


def _criteria(facts: CellFacts) -> list[Check]:
    return [
        replace(_criterion(facts, item), rests=RESTS_OF_CRITERIA.get(item.figure, EVERYTHING))
        for item in facts.cell.record.criteria
    ]


def _criterion(facts: CellFacts, item: CriterionRecord) -> Check:
    """One of a scenario's limits on recovery, or on silence. An outage that never began has length 0."""
    if item.figure == READER_LATE:
        return _reader_late(facts, item)
    name = _LIMIT_FIGURES.get(item.figure)
    span = None if name is None else span_of(facts, name)
    if span is None:
        return Check(name=item.text, result=INCONCLUSIVE, reason=f"{item.text}: the run does not show it")
    is_area = name == AREA
    limit = item.limit if is_area else item.limit * 1000
    is_held = is_certain("<=", span.low, span.high, limit, limit)
    if span.value is None:
        told = f"{item.text}: {span.describe_hidden()}"
    elif is_area:
        told = f"{item.text}: {span.value:.2f} record-seconds"
    else:
        told = f"{item.text}: {span.value / 1000:.2f} s"
    if is_held is None:
        return Check(name=item.text, result=INCONCLUSIVE, reason=f"{told}; {span.why_open()}")
    return check(item.text, is_held, told, told, FAIL)


def _reader_late(facts: CellFacts, item: CriterionRecord) -> Check:
    """Whether the fault delayed some readers and not others. If not, the cell shows nothing about them."""
    groups = facts.cell.record.workload.reader_groups
    p90_us = {
        groups[number].name: us
        for number, latency in facts.reader_latency.items()
        if (us := latency.us_of("p90")) is not None
    }
    if len(p90_us) < 2:
        return Check(name=item.text, result=INCONCLUSIVE, reason=f"{item.text}: the run does not show it")
    last, first = (pick(p90_us, key=lambda reader: p90_us[reader]) for pick in (max, min))
    told = f"{item.text}: {_nine_of_ten(first, p90_us[first])}, and {_nine_of_ten(last, p90_us[last])}"
    is_late = math.isfinite(p90_us[first]) and p90_us[last] - p90_us[first] >= item.limit * 1e6
    return check(item.text, is_late, told, f"{told}, so the fault did not reach one group of readers only")


def _nine_of_ten(reader: str, us: float) -> str:
    if math.isinf(us):
        return f"never came to {reader}"
    return f"nine of ten records came to {reader} within {us / 1000:.1f} ms"


def _generator(facts: CellFacts) -> Check:
    """A rate below the one asked for is a result if the brokers are the limit, and none if the generator is."""
    ratio = achieved_ratio(facts)
    share = facts.cell.record.outcome.health.busiest_process_cpu_share
    name = "generator kept up"
    if facts.cell.kind is CellKind.CEILING:
        reason = ceiling_limit(facts) or "; ".join(
            ["the generator had room left", *filter(None, [library_limit(facts)])]
        )
        return Check(name=name, result=PASS, reason=reason)
    near, ceiling = ceiling_share(facts), generator_ceiling_per_s(facts)
    if near is not None and ceiling is not None and near >= CRITERIA.generator_ceiling_share_max:
        return Check(
            name=name,
            result=INCONCLUSIVE,
            reason=f"client-bound: {facts.throughput_records_per_s:,.0f} records/s are {near:.0%} of the "
            f"{ceiling:,.0f} that the generator reaches against a broker that stores nothing (limit "
            f"{CRITERIA.generator_ceiling_share_max:.0%}); lower the rate, or add processes",
        )
    if ratio is None:
        return Check(name=name, result=PASS, reason="no rate was asked for")
    if ratio >= CRITERIA.achieved_ratio_min:
        return Check(name=name, result=PASS, reason=f"{ratio:.0%} of the asked rate was sent")
    if share is not None and share < CRITERIA.generator_cpu_share_max:
        return Check(
            name=name,
            result=PASS,
            reason=f"{ratio:.0%} of the asked rate was sent with the generator at {share:.0%} CPU: "
            "the configuration carries no more",
        )
    busy = "its CPU share is unknown" if share is None else f"it used {share:.0%} CPU"
    return Check(
        name=name,
        result=INCONCLUSIVE,
        reason=f"client-bound: only {ratio:.0%} of the asked rate was sent and {busy}; lower the rate",
    )


def is_apart(client: str) -> bool:
    """Whether the client works in a process beside the one whose share of the processor is recorded: a JVM, a program
    of another language, a program of the user, or a version."""
    return client in _APART or "==" in client or "/" in client or client.startswith("process:")


def ceiling_limit(facts: CellFacts) -> str:
    """Why the rate of a ceiling may be that of the load generator, which is no capacity. Empty if it is not."""
    share = facts.cell.record.outcome.health.limiting_cpu_share
    unknown = "the load generator may be the limit: no capacity is claimed, because"
    if is_apart(facts.cell.record.client or ""):
        return f"{unknown} what the client's own process took was not recorded"
    if share is None:
        return f"{unknown} what it took of the processor was not recorded"
    if share >= CRITERIA.generator_cpu_share_max:
        return (
            f"the load generator was the limit: no capacity is claimed. It used {share:.0%} of what one core gives it "
            f"(limit {CRITERIA.generator_cpu_share_max:.0%})"
        )
    return ""


def library_limit(facts: CellFacts) -> str:
    """Why the rate of a ceiling says more of the client's library than of the setting, though no thread of the load
    generator was full. It stays a capacity: who uses this library gets no more. Empty if nothing like that is known."""
    if (facts.cell.record.client or "").partition("==")[0] == "confluent" and is_idempotent(facts.cell):
        return (
            "with enable.idempotence=true librdkafka keeps one request in flight for each partition and spins while it "
            "waits (seen with 2.16.0, docs/guide/found.md): such a ceiling is the library's, on any broker"
        )
    return ""


def _measured(facts: CellFacts) -> Check:
    """If all records of the window are acknowledged only after it, the window has no throughput."""
    return check(
        "measured",
        facts.throughput_records_per_s > 0,
        f"{facts.throughput_records_per_s:,.0f} records/s in the measured window",
        "no acknowledgement came in the measured window: it is shorter than the latency, or the host stood still",
    )


def _steady(facts: CellFacts) -> Check:
    """Never more than a mark. The system under test stalls too, and who leaves out its unsteady cells makes it look
    fast."""
    start_us, end_us = facts.cell.window_us()
    ratio = facts.steady_ratio
    name = "steady"
    of = "rate, of what was due" if schedule_kind(facts.cell) in CHANGING_KINDS else "rate"
    if ratio is None or end_us - start_us < CRITERIA.steady_window_us_min:
        return Check(name=name, result=PASS, reason="the window is too short to judge steadiness")
    told = unsteady(facts) or f"the slowest third had {ratio:.0%} of the fastest third's {of}"
    return Check(name=name, result=PASS, reason=told)
