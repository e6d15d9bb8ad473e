"""Whether a run passes of which some tests failed once and were tried again. Pure.

A test that fails and then passes alone is *unsteady*. It passes, and it is told. More than `UNSTEADY_MAX` of them fail
the run: then something is wrong that no second try may hide. Shown by tests/repository/test_repository_runner.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.runner.outcomes import Failure, Outcomes

# Markers of tests with real processes. Only these get a second try, and only these may start a process
# (tests/conftest.py).
MAY_FAIL_BY_THE_HOST: Final = (
    "slow", "spark", "kafka", "chromium", "toxiproxy", "docker", "external", "redis", "connect", "store",
)  # fmt: skip
UNSTEADY_MAX: Final = 3
TRIED_AGAIN_MAX: Final = 12  # so many failures are no accident of the host; a second try of all would only take time


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`failed` failed for good, `unsteady` failed once and passed alone."""

    passed: int
    skipped: int
    failed: tuple[Failure, ...]
    unsteady: tuple[Failure, ...]

    @property
    def incidents(self) -> int:
        return len({each.incident for each in self.unsteady})

    @property
    def is_pass(self) -> bool:
        return not self.failed and self.incidents <= UNSTEADY_MAX

    def lines(self) -> list[str]:
        """For people; the last one is the count that tools read."""
        told = [f"FAILED {each.test}: {each.last_line}" for each in self.failed]
        if self.unsteady:
            told.append(f"unsteady, failed once and passed alone (at most {UNSTEADY_MAX} are allowed):")
        for each in self.unsteady:
            told.append(f"  {each.test}, at {each.when}:")
            told += [f"    {line}" for line in each.told.splitlines()[-6:]]
        if not self.failed and not self.is_pass:
            told.append(f"FAILED: {self.incidents} unsteady tests, at most {UNSTEADY_MAX} may be")
        failed = len(self.failed) + (0 if self.failed or self.is_pass else self.incidents)
        return [*told, f"{self.passed} passed, {failed} failed, {self.skipped} skipped"]


def may_try_again(first: Outcomes) -> list[str]:
    """What failed, in the order in which it did. Empty if there is too much of it. A file that cannot be collected
    fails for good."""
    tests = [each.test for each in first.failures.values() if each.when != "collect"]
    return tests if len({each.incident for each in first.failures.values()}) <= TRIED_AGAIN_MAX else []


def judge(first: Outcomes, second: Outcomes) -> Verdict:
    """`second`: of the tests that were tried again. One that is missing there, or was skipped, did not pass."""
    unsteady = tuple(each for each in first.failures.values() if each.test in second.passed)
    failed = tuple(
        second.failures.get(each.test, each) for each in first.failures.values() if each.test not in second.passed
    )
    return Verdict(
        passed=len(first.passed) + len(unsteady), skipped=len(first.skipped), failed=failed, unsteady=unsteady
    )
