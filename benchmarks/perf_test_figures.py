"""Figures of perf_test.py: what the tool prints, what our rows say in three ways of counting, and the page. Pure."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.errors import CellError
from runlog.streams.schema import SendStatus

TOOL: Final = "kafka-producer-perf-test"
PARTITIONS: Final = 3
AS_FAST_AS_IT_GOES: Final = 0
PROPERTIES: Final = {
    "acks": "all", "enable.idempotence": "true", "linger.ms": "5", "batch.size": "16384", "compression.type": "none",
}  # fmt: skip
QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))
_LINE: Final = re.compile(
    r"(?P<n>\d+)(?P<steady> steady state)? records sent, (?P<rate>[\d.]+) records/sec \((?P<mib>[\d.]+) MB/sec\), "
    r"(?P<mean>[\d.]+) ms avg latency, (?P<max>[\d.]+) ms max latency, (?P<p50>\d+) ms 50th, (?P<p95>\d+) ms 95th, "
    r"(?P<p99>\d+) ms 99th, (?P<p999>\d+) ms 99\.9th"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One tool, one rate, one round, one way to count. Milliseconds."""

    tool: str
    counted: str
    rate_per_s: int  # 0: as fast as it goes
    round: int
    records: int
    records_per_s: float
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    not_counted: int = 0  # sends that failed or whose fate is unknown


@dataclass(slots=True, kw_only=True)
class Document:
    date: str
    command: str
    cluster: str
    host: dict[str, str]
    record_bytes: int
    warmup_s: float
    seconds: float
    warm_up: str = ""  # of the brokers, once
    properties: dict[str, str] = field(default_factory=lambda: dict(PROPERTIES))
    figures: list[Figures] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class PerfTestError(Exception):
    """The tool ended with an error, or printed no figures."""


def parse(output: str, *, rate_per_s: int, number: int) -> Figures:
    """The steady-state line of the tool's output; PerfTestError when there is none."""
    found = [match for line in output.splitlines() if (match := _LINE.search(line))]
    steady = next((match for match in found if match["steady"]), None)
    if steady is None:
        raise PerfTestError(f"{TOOL} printed no steady-state figures: {output[-500:]!r}")
    return Figures(
        tool=TOOL,
        counted="send() to callback, whole ms",
        rate_per_s=rate_per_s,
        round=number,
        records=int(steady["n"]),
        records_per_s=float(steady["rate"]),
        mean_ms=float(steady["mean"]),
        p50_ms=float(steady["p50"]),
        p95_ms=float(steady["p95"]),
        p99_ms=float(steady["p99"]),
        p999_ms=float(steady["p999"]),
        max_ms=float(steady["max"]),
    )


def count(
    rows: dict[str, NDArray[np.int64]], window_us: tuple[int, int], *, tool: str, rate_per_s: int, number: int
) -> list[Figures]:
    """Records due in the window, from the intended time, from the hand-over, and as the tool counts them. Pure."""
    start_us, end_us = window_us
    inside = (rows["intended_us"] >= start_us) & (rows["intended_us"] < end_us)
    acked = inside & (rows["status"] == SendStatus.ACKED)
    if not acked.any():
        raise CellError("nothing was acknowledged in the measured window")
    in_window = (rows["status"] == SendStatus.ACKED) & (rows["acked_us"] >= start_us) & (rows["acked_us"] < end_us)
    rate = float(in_window.sum()) * 1e6 / (end_us - start_us)
    handed_us = rows["acked_us"][acked] - rows["sent_us"][acked]
    ways = {
        "from the intended time": (rows["acked_us"] - rows["intended_us"])[acked],
        "from the hand-over": handed_us,
        # Both ends are read from a clock of whole milliseconds.
        "as the tool counts": (rows["acked_us"][acked] // 1000 - rows["sent_us"][acked] // 1000) * 1000,
    }
    if rate_per_s == AS_FAST_AS_IT_GOES:
        del ways["from the intended time"]  # a closed loop intends nothing earlier than it sends
    return [
        Figures(
            tool=tool,
            counted=counted,
            rate_per_s=rate_per_s,
            round=number,
            records=int(acked.sum()),
            records_per_s=round(rate, 1),
            mean_ms=round(float(latency_us.mean()) / 1000, 3),
            max_ms=round(float(latency_us.max()) / 1000, 3),
            not_counted=int(inside.sum() - acked.sum()),
            **{f"{name}_ms": round(float(np.quantile(latency_us, share)) / 1000, 3) for name, share in QUANTILES},
        )
        for counted, latency_us in ways.items()
    ]


def render(document: Document) -> str:
    """The Markdown page: medians over the rounds, with their range where there is more than one. Pure."""
    lines = [
        f"# Our engine beside {TOOL}",
        "",
        f"`{document.command}`, {document.date}, on {document.cluster}: {PARTITIONS} partitions, "
        f"{document.record_bytes} B records, {document.seconds:g} s after {document.warmup_s:g} s of warm-up, "
        f"`{' '.join(f'{name}={value}' for name, value in document.properties.items())}`. "
        "Medians over the rounds, the range in brackets. Why they differ: benchmarks/README.md.",
        "",
        f"Before all of it: {document.warm_up}.",
    ]
    rates = list(dict.fromkeys(figures.rate_per_s for figures in document.figures))
    for rate in rates:
        own = [figures for figures in document.figures if figures.rate_per_s == rate]
        title = f"{rate:,} records/s asked for" if rate else "as fast as it goes (a closed loop on both sides)"
        lines += ["", f"## {title}", ""]
        lines += ["| tool | latency counted | records/s | mean ms | p50 | p95 | p99 | p99.9 | max | not counted |"]
        lines += ["|---|---|---|---|---|---|---|---|---|---|"]
        for tool, counted in dict.fromkeys((figures.tool, figures.counted) for figures in own):
            same = [figures for figures in own if (figures.tool, figures.counted) == (tool, counted)]
            cells = [_median([figures.records_per_s for figures in same], 0)]
            names = ("mean_ms", "p50_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms")
            cells += [_median([getattr(figures, name) for figures in same], 1) for name in names]
            missing = sum(figures.not_counted for figures in same)
            lines.append(f"| {tool} | {counted} | {' | '.join(cells)} | {missing if 'ours' in tool else 'not told'} |")
    lines += ["", *(f"- problem: {problem}" for problem in document.problems)]
    lines += [f"- {name}: {value}" for name, value in document.host.items()]
    return "\n".join(lines) + "\n"


def _median(values: Sequence[float], digits: int) -> str:
    middle = f"{statistics.median(values):,.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"
