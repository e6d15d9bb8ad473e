"""Checks a history: all anomalies with what is lawful, as a record, as JSON and as lines for a terminal.

Shown by tests/reports/test_reports_jepsen_check.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reports.jepsen.anomalies import RULES, Case, cases_of
from reports.jepsen.cycles import cycle_cases
from reports.jepsen.edn import Form, Map, write
from reports.jepsen.facts import Key, Removed, facts_of
from reports.jepsen.lawful import ruling_of
from reports.jepsen.operations import History, Operation, line_of
from reports.jepsen.terms import Terms
from reports.judge.lawful import LAWFUL, Ruling

FORMAT: Final = 1
CASES_MAX: Final = 32  # that JSON shows of one anomaly; as many as Jepsen shows
_LINES_MAX: Final = 3  # that a terminal shows of one
REMOVED: Final = "removed"  # in the settings of a history of ours: {key [[first end] ...]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All cases of one anomaly with one ruling."""

    anomaly: str
    ruling: Ruling
    cases: tuple[Case, ...]

    @property
    def is_lawful(self) -> bool:
        return self.ruling.lawful == LAWFUL


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """`found` has what is not lawful first, in the order of RULES within each half."""

    operations: int
    by_action: Mapping[str, int]
    found: tuple[Found, ...]
    notes: tuple[str, ...]
    history: History

    @property
    def is_lawful(self) -> bool:
        return all(found.is_lawful for found in self.found)

    def cases(self, anomaly: str) -> list[Case]:
        return [case for found in self.found if found.anomaly == anomaly for case in found.cases]


def check(history: History, terms: Terms) -> Checked:
    """Time and memory in proportion to the history, but for the search of the least cycles, which has a bound."""
    facts = facts_of(history, removed_of(history.settings))
    groups: dict[tuple[str, Ruling], list[Case]] = {}
    for case in (*cases_of(facts), *cycle_cases(facts)):
        groups.setdefault((case.anomaly, ruling_of(case, terms)), []).append(case)
    found = [Found(anomaly=name, ruling=ruling, cases=tuple(cases)) for (name, ruling), cases in groups.items()]
    order = list(RULES)
    found.sort(key=lambda item: (item.is_lawful, order.index(item.anomaly)))
    notes = [
        f"left out: {count} operations :{f}, which say nothing about records" for f, count in history.left_out.items()
    ]
    if facts.sent_twice:
        key, value = facts.sent_twice[0]
        notes.append(
            f"{len(facts.sent_twice)} values were sent by several operations, e.g. {write(value)} to key {write(key)}. "
            "Values should be unique: such a value counts for one of them, if possible for one that ended :ok"
        )
    moved = [operation for operation in history.operations if operation.moves_data]
    return Checked(
        operations=len(moved),
        by_action=dict(Counter(f"{operation.f} {operation.type.value}" for operation in moved)),
        found=tuple(found),
        notes=tuple(notes),
        history=history,
    )


def removed_of(settings: Mapping[str, Form]) -> Removed:
    """Offsets that retention, compaction or somebody may have taken, as a history of ours tells them."""
    told = settings.get(REMOVED)
    removed: dict[Key, tuple[tuple[int, int], ...]] = {}
    for key, ranges in told.items() if isinstance(told, Map) else ():
        pairs = [pair for pair in ranges if isinstance(pair, tuple)] if isinstance(ranges, tuple) else []
        removed[key] = tuple(
            (first, end)
            for first, end in (pair for pair in pairs if len(pair) == 2)
            if _is_whole(first) and _is_whole(end)
        )
    return removed


def _is_whole(form: Form) -> bool:
    return isinstance(form, int) and not isinstance(form, bool)


def to_json(checked: Checked, *, source: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """A document for programs: `docs/reference/histories.md` describes it. At most CASES_MAX cases of each anomaly."""
    return {
        "format": FORMAT,
        "source": source,
        "operations": checked.operations,
        "by_action": dict(sorted(checked.by_action.items())),
        "settings": dict(settings),
        "verdict": "pass" if checked.is_lawful else "fail",
        "anomalies": [
            {
                "anomaly": found.anomaly,
                "title": RULES[found.anomaly].title,
                "lawful": found.ruling.lawful,
                "reason": found.ruling.reason,
                "source": found.ruling.source,
                "count": len(found.cases),
                "cases": [_case_json(case, checked.history.operations) for case in found.cases[:CASES_MAX]],
            }
            for found in checked.found
        ],
        "notes": list(checked.notes),
    }


def _case_json(case: Case, operations: Sequence[Operation]) -> dict[str, Any]:
    return {
        "words": case.words,
        "identity": [write(item) for item in case.identity[:CASES_MAX]],
        "operations": [line_of(operations[number]) for number in case.operations],
    }


def to_lines(checked: Checked) -> Iterator[str]:
    """For people. The last line says how it ends."""
    counts = ", ".join(f"{count} {name}" for name, count in sorted(checked.by_action.items()))
    yield f"{checked.operations} operations: {counts}" if checked.operations else "no operation moved records"
    for found in checked.found:
        ruling = found.ruling
        yield f"{found.anomaly}: {len(found.cases)}, {ruling.lawful} ({ruling.reason}; {ruling.source})"
        for case in found.cases[:_LINES_MAX]:
            yield f"  {case.words}"
        if len(found.cases) > _LINES_MAX:
            yield f"  and {len(found.cases) - _LINES_MAX} more"
    yield from checked.notes
    unlawful = [found.anomaly for found in checked.found if not found.is_lawful]
    if unlawful:
        yield f"fail: {', '.join(dict.fromkeys(unlawful))}"
    else:
        yield "pass: no anomaly that is not lawful"
