"""What a finding says to a person: what was tried, what was seen, and when. Pure; plain text.

Shown by tests/harness/test_harness_explore_campaign.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from broker.door.protocol import error_name
from harness.explore.execution.toxics import is_second
from harness.explore.search.search import Finding, Stage
from harness.explore.trial.history import (
    Busy,
    Changed,
    Commit,
    Connected,
    Delivered,
    Ended,
    Fate,
    FlushedEarly,
    Happening,
    History,
    Outcome,
    Overdue,
    Problem,
    Rebalance,
    Sent,
    Sought,
    Stuck,
    TransactionEnd,
)

_LINES_MAX = 60
_AROUND = 6
_SOON = 40  # requests


def story(finding: Finding) -> str:
    """The finding in full: its claim, its moves, its disturbance, and what happened in the last run that showed it."""
    trial = finding.trial
    lines = [f"{finding.signature}", "", finding.suspicion.what, ""]
    lines += [_confidence(finding), "", "Moves:"]
    lines += [f"  {number}. {text}" for number, text in enumerate(_moves(finding), 1)]
    if trial.program.is_one_by_one:
        lines += ["", "Polls give one record each, by the library's call for that."]
    if trial.program.topics > 1:
        each = trial.program.partitions
        lines += ["", f"Partitions 0 to {each - 1} are topic 0's, the next {each} are topic 1's, and so on."]
    if trial.disturbances:
        lines += ["", f"Disturbance: {trial.disturbed}"]
    properties = sorted(trial.program.properties.items())
    lines += ["", "Settings: " + ", ".join(f"{name}={value}" for name, value in properties)]
    if finding.history is not None:
        lines += ["", "What happened, in seconds since the client began:", *timeline(finding.history)]
        if around := traffic(finding.history):
            lines += ["", "Its requests around the disturbance:", *around]
    return "\n".join(lines) + "\n"


def _confidence(finding: Finding) -> str:
    controls = (
        f", and in {finding.controls_shown} of {finding.controls_tried} controls" if finding.controls_tried else ""
    )
    if finding.stage is not Stage.CONFIRMED:
        return f"A suspicion: {finding.stage}. It showed in {finding.shown} of {finding.tried} repetitions{controls}."
    small = "" if finding.trial is finding.first else " of the smallest trial"
    return f"It showed in {finding.shown} of {finding.tried} repetitions{small}{controls}."


def _moves(finding: Finding) -> Iterator[str]:
    """Equal moves that follow each other are one line."""
    for text, run in groupby(map(str, finding.trial.program.moves)):
        times = len(list(run))
        yield text if times == 1 else f"{text}, {times} times"


def timeline(history: History) -> list[str]:
    """One line for each happening, and for several of a kind that follow each other. In the middle lines are left out,
    if there are many."""
    if not history.happened:
        return ["  nothing"]
    start_us = history.happened[0].at_us
    lines: list[tuple[int, str]] = []
    for _, run in groupby(history.happened, key=_group):
        members = list(run)
        lines.append((members[0].at_us, _words(members)))
    for at_us, what in (
        (history.first_disturbed_us, "the disturbance has met a request"),
        (history.then_disturbed_us, "the second disturbance has met a request"),
        (history.healed_us, "healed"),
    ):
        if at_us is not None:
            lines.append((at_us, what))
    texts = [f"  {(at_us - start_us) / 1e6:7.3f}  {text}" for at_us, text in sorted(lines, key=lambda line: line[0])]
    if len(texts) > _LINES_MAX:
        half = _LINES_MAX // 2
        texts = [*texts[:half], f"  ... {len(texts) - 2 * half} lines ...", *texts[-half:]]
    return texts


def traffic(history: History) -> list[str]:
    """The requests before and after the first one that a disturbance met, with what became of them. If the second
    disturbance followed soon, until after that."""
    found = history.exchanges
    met = next((place for place, each in enumerate(found) if each.toxics), None)
    if met is None or not history.happened:
        return []
    again = next((place for place, each in enumerate(found) if any(map(is_second, each.toxics))), met)
    last = again if again < met + _SOON else met
    start_us = history.happened[0].at_us
    lines = []
    for each in found[max(0, met - _AROUND) : last + 2 * _AROUND + 1]:
        codes = ", ".join(error_name(code) for code in each.error_codes or ())
        mark = "  <- disturbed" if each.toxics else ""
        mark += " by the second one" if any(map(is_second, each.toxics)) else ""
        took_ms = (each.ended_ns - each.mono_ns) / 1e6
        what = f"{each.api} v{each.api_version} to {each.proxy.removeprefix('client-')}, connection {each.connection}"
        at_s = (each.mono_ns / 1_000 - start_us) / 1e6
        lines.append(f"  {at_s:7.3f}  {what}: {each.outcome}{f' {codes}' if codes else ''} ({took_ms:.0f} ms){mark}")
    return lines


def _group(one: Happening) -> tuple[object, ...]:
    match one:
        case Outcome():
            return Outcome, one.fate, one.code, one.reason, one.partition
        case Delivered():
            return Delivered, one.partition
        case Sent():
            return Sent, one.transaction
        case _:
            return type(one), id(one)


def _words(members: list[Happening]) -> str:
    first = members[0]
    match first:
        case Sent():
            seqs = [one.seq for one in members if isinstance(one, Sent)]
            of = f" of transaction {first.transaction}" if first.transaction else ""
            return f"sent {_range(seqs, 'record')}{of}"
        case Outcome():
            seqs = [one.seq for one in members if isinstance(one, Outcome)]
            if first.fate is Fate.ACKNOWLEDGED:
                offsets = [one.offset for one in members if isinstance(one, Outcome)]
                return (
                    f"acknowledged {_range(seqs, 'record')}: partition {first.partition}, {_range(offsets, 'offset')}"
                )
            why = f" ({error_name(first.code)})" if first.code > 0 else ""
            return f"{first.fate} {_range(seqs, 'record')}{why}: {first.reason}"
        case Delivered():
            offsets = [one.offset for one in members if isinstance(one, Delivered)]
            return f"handed out partition {first.partition}, {_range(offsets, 'offset')}"
        case Rebalance():
            return f"{first.change} {_range(sorted(first.partitions), 'partition')}"
        case Sought():
            return f"partition {first.partition} sought to offset {first.offset}"
        case Commit():
            positions = ", ".join(f"{partition}: {offset}" for partition, offset in sorted(first.offsets.items()))
            by = "by itself " if first.is_automatic else ""
            return f"commit {by}of {positions}: {first.told}"
        case TransactionEnd():
            what = "commit" if first.is_commit else "abort"
            return f"{what} of transaction {first.transaction}: {first.told}"
        case Problem():
            place = f"{first.command}: " if first.command else ""
            return f"{'fatal' if first.is_fatal else 'error'}: {place}{first.reason}"
        case Overdue():
            return f"no answer: {first.command}"
        case Connected():
            return "begins" if not first.is_killed_before else "killed, and begins anew"
        case Ended():
            how = f"by signal {first.signal}" if first.signal else f"with exit code {first.code}"
            return f"the process ended {how}: {first.last_words}"
        case Changed() | FlushedEarly():
            return first.what
        case Busy():
            return f"it uses {first.share:.0%} of a processor for {first.looked_ms} ms, {first.when}"
        case Stuck():
            return f"no progress for {first.waited_ms} ms: {first.missing} of {first.expected} {first.what}"


def _range(numbers: list[int], noun: str) -> str:
    """As a reader counts: `records 4-9`, `offsets 3, 7-8 and more`."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in runs[:4]]
    more = " and more" if len(runs) > 4 else ""
    return f"{noun}{'s' if len(numbers) != 1 else ''} {', '.join(parts)}{more}"
