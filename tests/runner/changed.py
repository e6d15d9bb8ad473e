"""`python -m tests.runner.changed PYTEST-ARGUMENTS`: a part of the long tests, chosen for the last change.

The change is what HEAD has beyond CHANGE_BASE (a commit). Without that variable it is what was committed in the twelve
hours before HEAD. `--base` alone prints that commit. TEST_BUDGET_S: no test begins later than so many seconds; 360 if
it is not set.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.runner.__main__ import main as run_tests
from tests.runner.choice import Choice, part_at
from tests.runner.imports import distances

ROOT: Final = Path(__file__).resolve().parents[2]
BUDGET_S: Final = 360.0
_RECENT_S: Final = 12 * 3_600
_EMPTY_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # git's name for it
_NO_TESTS: Final = 5  # pytest.ExitCode.NO_TESTS_COLLECTED


def git(*words: str) -> str:
    """Raises CalledProcessError, with what git says on stderr."""
    return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=120, check=True).stdout


def commit_time_s() -> int:
    return int(git("log", "-1", "--format=%ct"))


def base_of_change() -> str:
    """The whole name of a commit, or git's empty tree if all is new."""
    if given := os.environ.get("CHANGE_BASE"):
        return git("rev-parse", "--verify", given).strip()
    return git("rev-list", "-1", f"--before={commit_time_s() - _RECENT_S}", "HEAD").strip() or _EMPTY_TREE


def choose(budget_s: float) -> Choice:
    base = base_of_change()
    changed = git("diff", "--name-only", "-z", base, "HEAD").split("\0")
    paths = [path for path in git("ls-files", "-z", "*.py").split("\0") if path and (ROOT / path).is_file()]
    sources = {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}
    print(f"the change: {len(changed) - 1} files since {base[:12]}", flush=True)
    return Choice(steps=distances(sources, filter(None, changed)), part=part_at(commit_time_s()), budget_s=budget_s)


def main(arguments: Sequence[str]) -> int:
    if arguments == ["--base"]:
        print(base_of_change())
        return 0
    choice = choose(float(os.environ.get("TEST_BUDGET_S") or BUDGET_S))
    with tempfile.NamedTemporaryFile("w", prefix="chosen-", suffix=".json") as file:
        json.dump(choice.as_json(), file)
        file.flush()
        code = run_tests(["-p", "tests.runner.chosen", f"--chosen={file.name}", *arguments])
    return 0 if code == _NO_TESTS else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
