"""A search with a program under test, from a user's own test: what `harness explore --program` does, and fails as a
test does.

The search has a cluster of its own, since brokers are lost in it, and a directory in that of the test. Shown by
tests/harness/test_harness_pytest_explore.py.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from harness.cli.explore.explore import Question
from harness.cli.explore.own_program import PATIENCE, Own, explore_program
from harness.errors import ExitCode
from harness.fixtures.errors import Inconclusive

BUDGET: Final = "2m"
JOBS: Final = 3


class Explore:
    """`cluster`: as `--kafka-cluster` says it. `directory`: each search gets one of its own there."""

    def __init__(self, directory: Path, cluster: str) -> None:
        self._directory, self._cluster = directory, cluster
        self._searches = 0

    def program(
        self,
        command: str | Sequence[str],
        *,
        budget: str = BUDGET,
        seed: int = 0,
        records_before: int = 0,
        patience: str = PATIENCE,
        known: Path | None = None,
        jobs: int = JOBS,
    ) -> Path:
        """Disturbs the program's requests and its cluster for `budget`, and returns the directory with explore.json.

        `records_before`: what the topic of each run holds before, for a program that reads. `known`: a file of findings
        that are allowed. AssertionError with the story of each other finding; Inconclusive if most trials proved
        nothing; HarnessError for a program that fails without any fault, and for wrong arguments.
        """
        self._searches += 1
        run_dir = self._directory / f"explore-{self._searches}"
        text = command if isinstance(command, str) else shlex.join(command)
        question = Question(
            command=(),
            client=None,
            engine=self._cluster,
            budget=budget,
            seed=seed,
            only=(),
            again=None,
            jobs=jobs,
            run_dir=run_dir,
            known=known,
        )
        code = explore_program(question, Own(command=text, records_before=records_before, patience=patience))
        if code is ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        document: dict[str, Any] = json.loads((run_dir / "explore.json").read_text(encoding="utf-8"))
        if code is ExitCode.FAIL:
            raise AssertionError("\n\n".join([f"{text} does not stand this:", *_stories(document, run_dir)]))
        if code is not ExitCode.PASS:
            problems = document["trials_that_proved_nothing"]
            raise Inconclusive(f"{len(problems)} of {document['trials']} trials proved nothing: {problems[0]}")
        return run_dir


def _stories(document: dict[str, Any], run_dir: Path) -> list[str]:
    """Of each cause that is not known the smallest finding, and the command that tries it again."""
    told = []
    again = {finding["number"]: finding["again"] for finding in document["findings"]}
    for cause in document["causes"]:
        if not cause["known"]:
            number = cause["findings"][0]
            story = (run_dir / "findings" / str(number) / "story.txt").read_text(encoding="utf-8")
            told.append(f"{cause['cause']}\n{story.rstrip()}\nagain: {again[number]}")
    return told
