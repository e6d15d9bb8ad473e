"""The unsteady tests that this machine has seen: `python -m tests.runner.history` counts them.

The file has a line of JSON for each time. It lies outside of the checkout, so that fresh clones add to it. What became
of each test stands in docs/internals/unsteady-tests.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.runner.outcomes import Failure

_ROOT: Final = Path(__file__).resolve().parents[2]


def history_path() -> Path:
    """UNSTEADY_TESTS, else in the state directory of the user."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(os.environ.get("UNSTEADY_TESTS") or Path(state) / "kafka-harness-tests" / "unsteady.jsonl")


def add(path: Path, failures: Sequence[Failure], *, at_s: float, commit: str, load: float) -> None:
    """Appends. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"test": each.test, "when": each.when, "at": round(at_s), "commit": commit, "load": load,
                    "told": each.told}) + "\n"
        for each in failures
    ]  # fmt: skip
    with path.open("a", encoding="utf-8") as file:
        file.write("".join(lines))


def counted(lines: Sequence[str]) -> list[tuple[int, str, str]]:
    """How often, which test, and the last line of its last failure; the most frequent first. A half line is left out:
    two runs may write at once, and a full disk may cut one."""
    counts: dict[str, int] = {}
    told: dict[str, str] = {}
    for line in lines:
        try:
            event: dict[str, Any] = json.loads(line)
            counts[event["test"]] = counts.get(event["test"], 0) + 1
            told[event["test"]] = Failure(test="", when="", told=event["told"]).last_line
        except (ValueError, KeyError, TypeError):
            continue
    return sorted(((count, test, told[test]) for test, count in counts.items()), key=lambda row: (-row[0], row[1]))


def commit_of_checkout() -> str:
    """Short; empty without git."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=_ROOT, capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def keep(failures: Sequence[Failure]) -> str:
    """A line for people: where they are kept, or why not."""
    path = history_path()
    try:
        add(path, failures, at_s=time.time(), commit=commit_of_checkout(), load=round(os.getloadavg()[0], 1))
    except OSError as error:
        return f"not kept in {path}: {error}"
    return f"kept in {path} (python -m tests.runner.history counts them)"


def main() -> int:
    path = history_path()
    if not path.exists():
        print(f"no unsteady test was seen on this machine ({path})", file=sys.stderr)
        return 0
    for count, test, told in counted(path.read_text(encoding="utf-8").splitlines()):
        print(f"{count}  {test}  {told[:160]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
