"""The result of one check, and the verdict that all checks of a cell give together. Pure.

An observed violation is a fail, even if the figures of speed are in doubt. Inconclusive means that the run does not
show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.judge.holes import EVERYTHING, Rests
from runlog.records.holes import Hole
from runlog.records.verdicts import LimitRecord, Result

PASS, FAIL, INCONCLUSIVE = Result.PASS, Result.FAIL, Result.INCONCLUSIVE
EXIT_CODES: Final = {PASS: 0, FAIL: 1, INCONCLUSIVE: 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One invariant of one cell: a JUnit test case, if the cell can break it."""

    name: str
    result: Result
    reason: str
    rests: Rests = EVERYTHING  # the evidence; under_holes says what a hole in it does
    # Numbers of the producers whose records show a violation. Empty: they are not told.
    producers: frozenset[int] = frozenset()
    is_breakable: bool = True  # False: nothing in this cell can break it, or its settings permit it
    is_under_hole: bool = False  # inconclusive for a hole only, which a check of the evidence tells
    allowed: str = ""  # a failure that an allowance covers: the allowance, and what it covers

    @property
    def is_test_case(self) -> bool:
        """Whether it says something: what failed or is in doubt always does."""
        return self.is_breakable or self.result != PASS or bool(self.allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    result: Result
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()  # worth knowing, changes nothing
    holes: tuple[Hole, ...] = ()  # What its evidence lacks, also where no check of this cell rests on it.
    limits: tuple[LimitRecord, ...] = ()  # each is a check too

    @property
    def reasons(self) -> list[str]:
        """Why it is not a pass; for a pass, what was shown. A hole is told once, and not by each check that rests on
        it."""
        wanted = [check for check in self.checks if check.result == self.result]
        told = [check.reason for check in wanted if not check.is_under_hole] or [check.reason for check in wanted]
        return told or [check.reason for check in self.checks]


def worst(results: Sequence[Result]) -> Result:
    """Fail comes before inconclusive, and inconclusive before pass. No check at all is inconclusive."""
    if FAIL in results:
        return FAIL
    return INCONCLUSIVE if INCONCLUSIVE in results or not results else PASS


def check(
    name: str, good: bool, reason: str, otherwise: str, result: Result = INCONCLUSIVE, *, rests: Rests = EVERYTHING
) -> Check:
    """`reason` of a pass; `otherwise` is told of what is not good, which is then the result."""
    return Check(name=name, result=PASS if good else result, reason=reason if good else otherwise, rests=rests)
