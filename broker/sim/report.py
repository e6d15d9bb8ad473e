"""Reports the results of many seeds: a line of progress, the states reached, and how to reproduce a failure."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from broker.sim.coverage import EXPECTED, RARE, Coverage
from broker.sim.seed_run import SeedResult
from broker.sim.shrink import Shrunk

STORY_LINES_SHOWN = 80


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


def failure_text(result: SeedResult, *, left_out: Sequence[str] = (), mutant: str | None = None) -> str:
    violation = result.violation
    assert violation is not None
    lines = [
        f"seed {result.seed}: {violation.invariant}",
        f"  {violation.message}",
        f"  at {violation.at_us / 1e6:.6f} s, trace {result.trace_hash:08x}; again: "
        f"{_command(result.seed, left_out, mutant)}",
        "  faults: " + ("; ".join(result.faults) or "none"),
    ]
    return "\n".join(lines)


def shrunk_text(found: Shrunk, *, mutant: str | None = None) -> str:
    """What is left, as the failure of a seed is told, and what of the whole seed that is."""
    whole, left = found.whole, found.left
    lines = [
        f"{len(found.kept)} of {len(found.parts)} parts are left after {found.runs} runs: "
        f"{', '.join(found.kept) or 'none'}",
        f"  {len(left.faults)} of {len(whole.faults)} faults, {left.events} of {whole.events} events",
        failure_text(left, left_out=found.left_out, mutant=mutant),
    ]
    return "\n".join(lines)


def story_text(result: SeedResult) -> str:
    """What was done and what the brokers said of it, in the order of time. What a broker says again, word for word, is
    told once, with how often and until when."""
    said: dict[str, list[float]] = {}
    for line in result.log:
        time, words = line.split(" ", 1)
        said.setdefault(words, []).append(float(time))
    told = [(float(time), f"FAULT {words}") for time, words in (fault.split(" ", 1) for fault in result.faults)]
    told += [(times[0], words + _repeated(times)) for words, times in said.items()]
    if result.violation is not None:
        told.append((result.violation.at_us / 1e6, f"VIOLATED {result.violation.invariant}"))
    told.sort()
    lines = [f"  {time:10.6f} {words}" for time, words in told]
    left_out = len(lines) - STORY_LINES_SHOWN
    return "\n".join([f"  ({left_out} earlier lines)"] * (left_out > 0) + lines[-STORY_LINES_SHOWN:])


def _repeated(times: Sequence[float]) -> str:
    return f" ({len(times)} times, until {times[-1]:.3f})" if len(times) > 1 else ""


def _command(seed: int, left_out: Sequence[str], mutant: str | None) -> str:
    words = ["python -m broker.sim --seeds", str(seed)]
    if mutant is not None:
        words.append(f"--mutant {mutant}")
    if left_out:
        words.append(f'--without "{",".join(left_out)}"')
    return " ".join((*words, "--log"))


def outcome_text(result: SeedResult) -> str:
    """The results of a seed in one line. If the lines of two commits are equal, they behave the same in this seed."""
    rest = repr((sorted(result.counts.items()), result.faults))
    invariant = "-" if result.violation is None else result.violation.invariant
    return (
        f"{result.seed} {result.trace_hash:08x} {result.events} {result.virtual_us} {result.acked} "
        f"{zlib.crc32(rest.encode()):08x} {invariant}"
    )


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
