"""Reports the results of many seeds: a line of progress, the states reached, and how to reproduce a failure."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from broker.sim.coverage import EXPECTED, RARE, Coverage
from broker.sim.seed_run import SeedResult

LOG_LINES_SHOWN = 60


@dataclass(slots=True, kw_only=True)
class Summary:
    seeds: int = 0
    events: int = 0
    acked: int = 0
    virtual_us: int = 0
    failures: list[SeedResult] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)

    def add(self, result: SeedResult) -> None:
        self.seeds += 1
        self.events += result.events
        self.acked += result.acked
        self.virtual_us += result.virtual_us
        self.coverage.merge(result.counts)
        if result.violation is not None:
            self.failures.append(result)


def failure_text(result: SeedResult) -> str:
    violation = result.violation
    assert violation is not None
    lines = [
        f"seed {result.seed}: {violation.invariant}",
        f"  {violation.message}",
        f"  at {violation.at_us / 1e6:.6f} s, trace {result.trace_hash:08x}; again: "
        f"python -m broker.sim --seeds {result.seed} --log",
        "  faults: " + "; ".join(result.faults),
    ]
    return "\n".join(lines)


def outcome_text(result: SeedResult) -> str:
    """The results of a seed in one line. If the lines of two commits are equal, they behave the same in this seed."""
    rest = repr((sorted(result.counts.items()), result.faults))
    invariant = "-" if result.violation is None else result.violation.invariant
    return (
        f"{result.seed} {result.trace_hash:08x} {result.events} {result.virtual_us} {result.acked} "
        f"{zlib.crc32(rest.encode()):08x} {invariant}"
    )


def log_text(result: SeedResult) -> str:
    return "\n".join(f"  {line}" for line in result.log[-LOG_LINES_SHOWN:])


def summary_text(summary: Summary) -> str:
    lines = [
        f"{summary.seeds} seeds, {summary.events} events, {summary.virtual_us / 1e6:.0f} s of virtual time, "
        f"{summary.acked} records acknowledged, {len(summary.failures)} failed",
        "states reached:",
    ]
    width = max(map(len, EXPECTED))
    for state in EXPECTED:
        count = summary.coverage.counts[state]
        lines.append(f"  {state:<{width}}  {count if count else 'NEVER'}")
    lines += [f"  {state:<{width}}  {summary.coverage.counts[state]} (rare)" for state in RARE]
    return "\n".join(lines)
