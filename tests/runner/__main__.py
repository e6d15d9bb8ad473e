"""`python -m tests.runner PYTEST-ARGUMENTS`: runs pytest, and tries failed tests with real processes once more.

The second try comes at the end and alone: no other test runs beside it. Only tests with one of the markers in
`MAY_FAIL_BY_THE_HOST` get one. A test of a pure core fails for good. The exit code is pytest's own, but 0 if all that
failed is unsteady (tests/runner/verdict.py). Why: docs/decisions/0019-second-try.md.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.runner.history import keep
from tests.runner.outcomes import Outcomes, read_outcomes
from tests.runner.verdict import MAY_FAIL_BY_THE_HOST, judge, may_try_again

_TESTS_FAILED: Final = 1  # pytest.ExitCode.TESTS_FAILED
_PYTEST: Final = (sys.executable, "-m", "pytest")


def main(arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="tests-runner-") as directory:
        first_log, second_log = Path(directory) / "first.jsonl", Path(directory) / "second.jsonl"
        code = _run(arguments, first_log)
        if code != _TESTS_FAILED:
            return code
        first = _outcomes(first_log)
        second = _tried_again(may_try_again(first), second_log)
        verdict = judge(first, second)
    told = verdict.lines()
    if verdict.unsteady:
        told.insert(-1, keep(verdict.unsteady))
    print("\n".join(["", "== both tries ==", *told]), flush=True)
    return 0 if verdict.is_pass and verdict.unsteady else _TESTS_FAILED


def _tried_again(tests: Sequence[str], log: Path) -> Outcomes:
    if not tests:
        return Outcomes()
    print(f"\n== a second try, alone, of what has real processes among {len(tests)} failed ==", flush=True)
    _run(["-m", " or ".join(MAY_FAIL_BY_THE_HOST), *tests], log)
    return _outcomes(log)


def _run(arguments: Sequence[str], log: Path) -> int:
    """The exit code of pytest. Ctrl-C reaches pytest by the terminal, SIGTERM by us; either way we wait until it has
    ended what its tests started."""
    # As one word: of two, the workers of pytest-xdist take the second for a path, and look for their settings there.
    process = subprocess.Popen([*_PYTEST, f"--report-log={log}", *arguments])
    handlers = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
    }
    try:
        return process.wait()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _outcomes(log: Path) -> Outcomes:
    if not log.exists():  # pytest ended before its first test
        return Outcomes()
    with log.open(encoding="utf-8") as lines:
        return read_outcomes(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
