"""Which findings are one: a cause is what was seen, in which phase of the client's life, and in which state it ended.

A search tells findings apart by the API that it disturbed. One bug often shows for several: a consumer that never asks
again stands still whichever answer stopped it. So what stands still, hangs, dies or gives up is told apart by the phase
and the state it is left in, and only damage of records by the API too, because its log does not say how it came. Where
no request was disturbed it is told apart by what is rare in the smallest trial that shows it. Names of topics and
numbers are no part of a state. Pure. Shown by tests/harness/test_harness_explore_causes.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from harness.explore.oracles.oracles import Kind
from harness.explore.search.search import STANDING, Finding, rare_of
from harness.explore.trial.history import Delivered, Ended, Fate, History, Outcome, Overdue, Problem, Rebalance
from harness.explore.trial.model import Trial

_LAST_S: Final = 4.0  # what it still asks for: longer than each time-out of the programs, and than a retry's pause
_TELLING: Final = (Kind.GAVE_UP, Kind.CRASHED)
_NUMBERS: Final = re.compile(r"0x[0-9a-f]+|\d+")
_QUOTED: Final = re.compile(r'"[^"]*"|\'[^\']*\'|\bexplore-[0-9a-f]+\S*')
_WHY: Final = re.compile(r"^(panic: |fatal error: |Exception in thread |Traceback |thread .* panicked)", re.MULTILINE)
_STATE_MAX: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """`api` is empty where the phase and the state say enough."""

    kind: Kind
    role: str
    api: str
    phase: str
    state: str

    def __str__(self) -> str:
        parts = [self.role, self.api, self.phase, self.state]
        return f"{self.kind} ({'; '.join(part for part in parts if part)})"


def cause_of(finding: Finding) -> Cause:
    kind, history = finding.signature.kind, finding.history
    state = "" if history is None else _state(kind, history, finding)
    return Cause(
        kind=kind,
        role=str(finding.signature.role),
        api="" if state and kind in (*STANDING, *_TELLING) else finding.signature.api,
        phase="" if history is None else _phase(history, finding.suspicion.at_us),
        state=state,
    )


def by_cause(findings: Iterable[Finding]) -> list[tuple[Cause, list[Finding]]]:
    """In the order in which the causes were found; within a cause the smallest trial first, and last what the same
    trial showed besides: one run that tears a transaction and duplicates a record shows one cause, the worst first.

    One that needed no disturbance has the cause of another such one whose smallest trial has less that is rare: there
    was no time to make it as small."""
    findings = list(findings)
    found: dict[Cause, list[Finding]] = {}
    besides: list[tuple[Cause, Finding]] = []
    shown_first: list[tuple[Trial, Cause]] = []  # a trial cannot be a key
    for finding in findings:
        cause = cause_of(min((one for one in findings if _has_all_of(finding, one)), key=_rare_moves))
        worst = next((one for trial, one in shown_first if trial == finding.first), cause)
        if cause not in found and worst.kind is not cause.kind:
            besides.append((worst, finding))
            continue
        shown_first.append((finding.first, cause))
        found.setdefault(cause, []).append(finding)
    told = {
        cause: sorted(members, key=lambda one: (len(one.trial.program.moves), one.found_after_s))
        for cause, members in found.items()
    }
    for cause, finding in besides:
        told[cause].append(finding)
    return list(told.items())


def _rare_moves(finding: Finding) -> int:
    return len(rare_of(finding.trial.program))


def _has_all_of(finding: Finding, other: Finding) -> bool:
    """Whether it is the other one, or has what is rare in that one's trial and more, where neither was disturbed."""
    if finding is other:
        return True
    is_damage = finding.signature.kind not in (*STANDING, *_TELLING)
    one, two = finding.trial, other.trial
    is_like = (finding.signature.kind, finding.signature.role) == (other.signature.kind, other.signature.role)
    is_quiet = one.disturbance is None and two.disturbance is None
    return is_damage and is_like and is_quiet and rare_of(two.program) < rare_of(one.program)


def of_kind(cause: Cause, members: Iterable[Finding]) -> list[Finding]:
    """Without what the same trial showed besides."""
    return [one for one in members if one.signature.kind is cause.kind]


def _phase(history: History, shown_us: int | None) -> str:
    """How far the client had come when it was disturbed, or else when it showed."""
    until_us = history.first_disturbed_us or shown_us
    phase = "at its start"
    for one in history.happened:
        if until_us is not None and one.at_us >= until_us:
            break
        if isinstance(one, Delivered) or (isinstance(one, Outcome) and one.fate is Fate.ACKNOWLEDGED):
            return "at work"
        if isinstance(one, Rebalance):
            phase = "before its first record"
    return phase


def _state(kind: Kind, history: History, finding: Finding) -> str:
    if kind in STANDING:
        return _last_asked(history)
    if kind is Kind.CRASHED:
        ended = next((one for one in history.happened if isinstance(one, Ended)), None)
        return (
            ""
            if ended is None
            else _words(f"signal {ended.signal}: {ended.last_words}" if ended.signal else ended.last_words)
        )
    if kind is Kind.GAVE_UP:
        told = [one for one in history.happened if isinstance(one, Problem) and one.is_fatal]
        failed = [one for one in history.happened if isinstance(one, Outcome) and one.fate is not Fate.ACKNOWLEDGED]
        first = (told or failed or [None])[0]
        return "" if first is None else _words(first.reason)
    rare = sorted(map(str, rare_of(finding.trial.program))) if finding.trial.disturbance is None else ()
    return f"with {', '.join(rare)}" if rare else ""


def _last_asked(history: History) -> str:
    """Which requests it still sends when it was given up, or which call has no answer."""
    overdue = next((one for one in history.happened if isinstance(one, Overdue)), None)
    if overdue is not None:
        return _words(f"in {overdue.command}")
    if not history.exchanges or not history.happened:
        return ""
    end_us = history.happened[-1].at_us
    last = sorted({each.api for each in history.exchanges if each.mono_ns // 1_000 >= end_us - _LAST_S * 1e6})
    return f"asks for {', '.join(last)}" if last else "asks for nothing"


def _words(text: str) -> str:
    """Without what differs from run to run, as one line: a cause is named in files and on the terminal."""
    return " ".join(_NUMBERS.sub("N", _QUOTED.sub("…", _gist(text))).split())[:_STATE_MAX]


def _gist(text: str) -> str:
    """From where a program begins to say why it died, if it does."""
    found = _WHY.search(text)
    return text if found is None else text[found.start() :]
