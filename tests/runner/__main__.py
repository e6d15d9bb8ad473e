"""`python -m tests.runner PYTEST-ARGUMENTS`: runs pytest, and tries failed tests with real processes once more.

The second try comes at the end and alone: no other test runs beside it. Only tests with one of the markers in
`MAY_FAIL_BY_THE_HOST` get one. A test of a pure core fails for good. The exit code is pytest's own, but 0 if all that
failed is unsteady (tests/runner/verdict.py). Why: docs/decisions/0019-second-try.md.

Nothing hangs for ever. A test that an exception does not end, ends with its worker, which tells where it hung
(`faulthandler_exit_on_timeout` in pyproject.toml); the run goes on with another worker. A run that reports nothing for
`_QUIET_MAX_S` is ended here, with all that it started.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import psutil

from tests.runner.history import keep
from tests.runner.outcomes import Outcomes, read_outcomes
from tests.runner.verdict import MAY_FAIL_BY_THE_HOST, judge, may_try_again

_TESTS_FAILED: Final = 1  # pytest.ExitCode.TESTS_FAILED
_PYTEST: Final = (sys.executable, "-m", "pytest")
_HANGS: Final = 3  # pytest.ExitCode.INTERNAL_ERROR
_QUIET_MAX_S: Final = 1_200.0  # more than `faulthandler_timeout`, so that a test that hangs is named
_LOOK_S: Final = 5.0


def main(arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="tests-runner-") as directory:
        first_log, second_log = Path(directory) / "first.jsonl", Path(directory) / "second.jsonl"
        code = _run(arguments, first_log)
        if code != _TESTS_FAILED:
            return code
        first = _outcomes(first_log)
        second = _tried_again(may_try_again(first), second_log, _settings(arguments))
        verdict = judge(first, second)
    told = verdict.lines()
    if verdict.unsteady:
        told.insert(-1, keep(verdict.unsteady))
    print("\n".join(["", "== both tries ==", *told]), flush=True)
    return 0 if verdict.is_pass and verdict.unsteady else _TESTS_FAILED


def _settings(arguments: Sequence[str]) -> list[str]:
    """What `-o` sets for this run. `-m` and `-n` are not for the second try."""
    return [word for flag, setting in pairwise(arguments) if flag == "-o" for word in (flag, setting)]


def _tried_again(tests: Sequence[str], log: Path, settings: Sequence[str]) -> Outcomes:
    if not tests:
        return Outcomes()
    print(f"\n== a second try, alone, of what has real processes among {len(tests)} failed ==", flush=True)
    # In a worker: one that dies takes no other test with it.
    _run([*settings, "-n", "1", "-m", " or ".join(MAY_FAIL_BY_THE_HOST), *tests], log)
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
        return _waited_for(process, log)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _waited_for(process: subprocess.Popen[bytes], log: Path) -> int:
    """The exit code. A run that reports no test for `_QUIET_MAX_S` has one of its own, whatever the second try says."""
    size, since_s = -1, time.monotonic()
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_LOOK_S)
        now = log.stat().st_size if log.exists() else 0
        if now != size:
            size, since_s = now, time.monotonic()
        elif time.monotonic() - since_s >= _QUIET_MAX_S:
            print(f"\nFAILED: no test has ended for {_QUIET_MAX_S:.0f} s. What still ran:", flush=True)
            _end(process)
            return _HANGS


def _end(process: subprocess.Popen[bytes]) -> None:
    """The run and all that it started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
        for each in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                print(f"  {each.pid} {each.status()} {' '.join(each.cmdline())[:160]}", flush=True)
                each.kill()
    process.wait()


def _outcomes(log: Path) -> Outcomes:
    if not log.exists():  # pytest ended before its first test
        return Outcomes()
    with log.open(encoding="utf-8") as lines:
        return read_outcomes(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
