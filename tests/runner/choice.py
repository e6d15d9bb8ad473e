"""Which of the long tests continuous integration runs: those that a change touches, and a tenth that rotates. Pure.

Both come in turns, file by file, so that a change which touches everything does not keep the tenth out. A budget ends
the whole (tests/runner/chosen.py). Shown by tests/repository/test_repository_runner.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, Final

PARTS: Final = 10
TURN_S: Final = 3 * 3_600  # about as often as a change comes


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`steps`: how far each touched test file is from the change, in imports."""

    steps: Mapping[str, int]
    part: int
    budget_s: float

    def as_json(self) -> dict[str, Any]:
        return {"steps": dict(self.steps), "part": self.part, "budget_s": self.budget_s}

    @classmethod
    def of_json(cls, value: Mapping[str, Any]) -> Choice:
        return cls(steps=value["steps"], part=value["part"], budget_s=value["budget_s"])

    def is_chosen(self, test: str) -> bool:
        """`test`: pytest's node id."""
        return file_of(test) in self.steps or part_of(test) == self.part

    def begins_within_s(self, *, has_own_limit: bool) -> float:
        """When a test begins at the latest. One that may take longer than the limit of all tests (pyproject.toml) has a
        limit of its own, and begins early."""
        return self.budget_s / 3 if has_own_limit else self.budget_s

    def files_in_order(self, tests: Iterable[str]) -> list[str]:
        """Of chosen tests. Touched files by their distance, the others by chance, in turns. Each part has another order
        of files at one distance: if a change touches all, the budget would always end after the same ones."""
        files = sorted({file_of(test) for test in tests}, key=lambda file: _hash(f"{self.part} {file}"))
        touched = sorted((file for file in files if file in self.steps), key=self.steps.__getitem__)
        others = [file for file in files if file not in self.steps]
        return [file for file in chain.from_iterable(zip_longest(touched, others)) if file is not None]


def part_at(commit_s: float) -> int:
    """The tenth for a commit of this time. The same commit has the same one; the next change has the next one."""
    return int(commit_s // TURN_S) % PARTS


def part_of(test: str) -> int:
    return _hash(test) % PARTS


def file_of(test: str) -> str:
    return test.split("::", 1)[0]


def _hash(text: str) -> int:
    """The same in each process, unlike `hash`."""
    return zlib.crc32(text.encode())


def told(choice: Choice, begun: Collection[str], late: Collection[str]) -> str:
    """A line for people."""
    touched = sum(file_of(test) in choice.steps for test in begun)
    return (
        f"long tests: {touched} that the change touches, {len(begun) - touched} of part {choice.part + 1} of {PARTS}; "
        f"{len(late)} more were not begun, since {choice.budget_s:.0f} s were over"
    )
