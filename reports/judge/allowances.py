"""Allowances: known failures that a team accepts, each with a reason and until a day. They are read, matched, applied.

An allowance turns a failed invariant of a cell into an allowed one, and every report of it says so. From its day on the
invariant fails again. If an allowance matches nothing, that is reported, so that the list does not outlive its reasons.
The file is YAML; JSON Schema by `harness schema allowances`. Shown by tests/reports/test_reports_allowances.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML

from reports.judge.checks import FAIL, PASS, Check, Verdict, worst
from reports.read.errors import UsageProblem
from runlog.files.expected import expectation
from runlog.files.user_files import UserFileError, load_yaml, read_text


class AllowanceError(UsageProblem):
    """The file cannot be read; the text names file and entry."""


class Allowance(BaseModel):
    """One entry. Patterns are shell patterns: * and ? and [..]."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cell: str = Field(description="pattern of cell ids, e.g. chaos-leader-loss-*", min_length=1)
    invariant: str = Field(description="pattern of invariants as in junit.xml, e.g. lost*", min_length=1)
    because: str = Field(description="why this may stay for now; a ticket will do", min_length=1)
    until: date = Field(description="the first day on which it fails again")

    def matches(self, cell_id: str, invariant: str) -> bool:
        return fnmatchcase(cell_id, self.cell) and fnmatchcase(invariant, self.invariant)

    def __str__(self) -> str:
        return f"{self.cell} / {self.invariant}"


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    allow: list[Allowance]


def read_allowances(path: Path) -> tuple[Allowance, ...]:
    try:
        document = load_yaml(read_text(path), YAML(typ="safe", pure=True))
        return tuple(_File.model_validate(document).allow)
    except UserFileError as error:
        raise AllowanceError(error.at(path)) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "(document)"
        raise AllowanceError(
            f"{path}: {place}: {expectation(first)}; the form is "
            "allow: [{cell, invariant, because, until: YYYY-MM-DD}]"
        ) from error


def allowance_schema() -> dict[str, object]:
    return _File.model_json_schema()


@dataclass(slots=True)
class Allowances:
    """Applied to one cell after the other. Afterwards `notes` says which allowances matched nothing."""

    entries: Sequence[Allowance] = ()
    today: date = field(default_factory=date.today)
    _used: set[Allowance] = field(default_factory=set)

    def apply(self, cell_id: str, verdict: Verdict) -> Verdict:
        """The verdict without the failures that are allowed; unchanged if none is."""
        checks = tuple(self._judge(cell_id, check) for check in verdict.checks)
        if checks == verdict.checks:
            return verdict
        return replace(verdict, result=worst([check.result for check in checks]), checks=checks)

    def apply_to_check(self, subject: str, check: Check) -> Check:
        """Applies to a limit of the run. `subject` takes the place of the cell id."""
        return self._judge(subject, check)

    def notes(self) -> Iterator[str]:
        for entry in self.entries:
            if entry not in self._used:
                yield f"allowance {entry} ({entry.because}) matched no failure: remove it"

    def _judge(self, cell_id: str, check: Check) -> Check:
        if check.result != FAIL:
            return check
        matching = [entry for entry in self.entries if entry.matches(cell_id, check.name)]
        self._used.update(matching)
        valid = [entry for entry in matching if self.today < entry.until]
        if valid:
            entry = max(valid, key=lambda candidate: candidate.until)
            return replace(check, result=PASS, allowed=f"allowed until {entry.until} ({entry.because}): {check.reason}")
        if matching:
            expired = max(entry.until for entry in matching)
            return replace(check, reason=f"{check.reason} (was allowed until {expired})")
        return check
