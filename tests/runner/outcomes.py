"""What a run of pytest came to, from the file that `--report-log` (pytest-reportlog) writes.

Knows nothing of second tries. Shown by tests/repository/test_repository_runner.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

_ENDS: Final = 2_000  # characters of a failure that are kept: its end says what went wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The first one of a test."""

    test: str  # pytest's node id
    when: str  # setup, call, teardown; collect; ??? if the worker died
    told: str  # the end of the traceback

    @property
    def incident(self) -> str:
        """Equal for what failed once and shows in many tests: a fixture that a whole file shares."""
        return f"{self.test.split('::', 1)[0]}: {self.told}" if self.when == "setup" else self.test

    @property
    def last_line(self) -> str:
        return next((line.strip() for line in reversed(self.told.splitlines()) if line.strip()), "")


@dataclass(slots=True, kw_only=True)
class Outcomes:
    """Of all tests of a run. A test is in one of the three."""

    passed: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    failures: dict[str, Failure] = field(default_factory=dict)


def read_outcomes(lines: Iterable[str]) -> Outcomes:
    """The last line may be half: pytest may have been killed."""
    found = Outcomes()
    for line in lines:
        try:
            report = json.loads(line)
        except ValueError:
            break
        if report.get("$report_type") in ("TestReport", "CollectReport"):
            _count(found, report)
    return found


def _count(found: Outcomes, report: dict[str, Any]) -> None:
    test, outcome = report["nodeid"], report["outcome"]
    when = report.get("when", "collect")
    if outcome == "failed":
        found.passed.discard(test)
        found.skipped.discard(test)
        told = _told(report.get("longrepr"))
        found.failures.setdefault(test, Failure(test=test, when=when, told=told))
    elif when != "collect" and test not in found.failures:
        if outcome == "skipped":
            found.skipped.add(test)
        elif when == "call":
            found.passed.add(test)


def _told(longrepr: Any) -> str:
    """A string, or what pytest makes of an exception, as JSON."""
    if isinstance(longrepr, dict):
        crash = longrepr.get("reprcrash") or {}
        return f"{crash.get('path')}:{crash.get('lineno')}: {crash.get('message', '')[-_ENDS:]}"
    return str(longrepr or "")[-_ENDS:]
