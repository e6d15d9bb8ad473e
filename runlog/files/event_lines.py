"""The one tolerant reader of a cell's event files. It knows what each line must contain, and says what is wrong with a
line.

A line that could break the analysis (no kind, a time that is text, an offset beyond 64 bits) is left out and reported.
So only its cell suffers. This module does not know what the events mean; docs/internals/contracts.md lists them. Shown
by tests/reports/test_reports_planted.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runlog.files.json_lines import Event
from runlog.files.strangers import LINE_BYTES_MAX, clean_document

EVENT_LINES_MAX: Final = 2_000_000  # a cell writes thousands; more means a broken writer, and must not fill the memory
PROBLEMS_MAX: Final = 5  # reported one by one; the rest as a number
_INT64_MAX: Final = 2**63 - 1

_INTEGERS: Final = frozenset({
    "t_us", "mono_ns", "broker", "partition", "leader_epoch", "log_end_offset", "log_start_offset", "from_offset",
    "to_offset", "base_offset", "last_offset", "offset", "end_offset", "epoch", "producer_id", "producer_epoch",
    "base_sequence", "crc", "correlation_id", "records", "attempt", "error_code", "answered_ns", "until_us", "asked_us",
    "number", "total", "generation",
})  # fmt: skip
_TEXTS: Final = frozenset({"kind", "phase"})
_LISTS: Final = frozenset({"isr"})

# Event file -> kind -> fields without which a line says nothing; "" for lines of every kind.
REQUIRED: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "cluster": {
        "": ("t_us", "kind"),
        "truncated": ("partition", "from_offset", "to_offset"),
        "appended": ("partition", "leader_epoch", "base_offset", "last_offset"),
        "isr_changed": ("partition", "isr"),
        "became_leader": ("partition",),
        "high_watermark": ("partition", "offset"),
    },
    "faults": {"": ("t_us", "id", "kind", "phase")},
    "wire": {"": ("mono_ns", "outcome")},
    "stats": {"": ("t_us",)},
    "history": {
        "": ("t_us", "kind"),
        "committed": ("partition", "offset"),
        "position": ("partition", "offset", "member"),
        "transaction": ("copier", "incarnation", "number", "outcome", "asked_us"),
        "balance": ("total",),
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLines:
    events: tuple[Event, ...] = ()
    problems: tuple[str, ...] = ()  # lines left out, each with its number; the file itself
    is_torn: bool = False  # the last line has no end: normal where the writer was killed


def read_event_lines(path: Path, *, t0_monotonic_ns: int | None = None) -> EventLines:
    """Events of one file; none when it does not exist. Those with `mono_ns` alone get `t_us` on the run's clock."""
    if path.is_symlink():
        return EventLines(problems=(f"{path.name}: a link, which is not followed",))
    if not path.exists():
        return EventLines()
    required = REQUIRED.get(path.stem, {})
    events: list[Event] = []
    problems: list[str] = []
    is_torn = False
    try:
        with path.open("rb") as stream:
            number = 0
            while line := stream.readline(LINE_BYTES_MAX):
                number += 1
                if number > EVENT_LINES_MAX or (len(line) == LINE_BYTES_MAX and not line.endswith(b"\n")):
                    problems.append(f"only the first {number - 1} lines were read: the next one is over a limit")
                    break
                if not line.endswith(b"\n"):
                    is_torn = True
                    break
                event, problem = _event(line, required, t0_monotonic_ns)
                if event is not None:
                    events.append(event)
                elif problem:
                    problems.append(f"line {number} {problem}")
    except OSError as error:
        problems.append(f"cannot be read: {error}")
    return EventLines(events=tuple(events), problems=_told(path.name, problems), is_torn=is_torn)


def _told(name: str, problems: list[str]) -> tuple[str, ...]:
    shown = [f"{name}: {problem}" for problem in problems[:PROBLEMS_MAX]]
    more = len(problems) - len(shown)
    return (*shown, *([f"{name}: {more} more lines were left out"] if more else []))


def _event(
    line: bytes, required: Mapping[str, tuple[str, ...]], t0_monotonic_ns: int | None
) -> tuple[Event | None, str]:
    """The event, or what is wrong with the line; neither for an empty one."""
    if not line.strip():
        return None, ""
    try:
        event = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None, "is no JSON and was left out"
    if not isinstance(event, dict):
        return None, "is no JSON object and was left out"
    mono_ns = event.get("mono_ns")
    if "t_us" not in event and type(mono_ns) is int and t0_monotonic_ns is not None:
        event["t_us"] = (mono_ns - t0_monotonic_ns) // 1000
    problem = _problem(event, required)
    if problem:
        return None, f"{problem} and was left out"
    return (clean_document(event) if b"\\u" in line else event), ""


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _problem(event: Event, required: Mapping[str, tuple[str, ...]]) -> str:
    for name in [name for name in event if event[name] is None and (name in _INTEGERS or name in _LISTS)]:
        del event[name]  # null means "not known", which is the same as absent
    for name, value in event.items():
        if name in _INTEGERS and not _is_integer(value):
            return f"has {name}={str(value)[:40]!r}, expected an integer of 64 bits"
        if name in _TEXTS and not isinstance(value, str):
            return f"has {name}={str(value)[:40]!r}, expected a text"
        if name in _LISTS and not (isinstance(value, list) and all(_is_integer(item) for item in value)):
            return f"has {name}={str(value)[:40]!r}, expected a list of integers"
    kind = str(event.get("kind", ""))
    for name in (*required.get("", ()), *(required.get(kind, ()) if kind else ())):
        if name not in event:
            return f"({kind or 'no kind'}) has no {name}"
    return ""


def _is_integer(value: object) -> bool:
    return type(value) is int and -_INT64_MAX <= value <= _INT64_MAX
