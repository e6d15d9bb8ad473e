"""Tests of Go modules: built once into the cache, one test a process, results read from what `-test.v` prints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.compatibility.clients import DRIVERS, built, execute
from tests.compatibility.suites.suite import Outcome, run_test

SOURCE = DRIVERS / "go"
_RESULT = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+) \(", re.MULTILINE)
_SAID = re.compile(r"^\s+\w+\.go:\d+: (.*(?:\n\s+\t.*)*)", re.MULTILINE)
_PANIC = re.compile(r"^panic: .*", re.MULTILINE)


def module_version(module: str) -> str:
    found = re.search(rf"{re.escape(module)} v(\S+)", (SOURCE / "go.mod").read_text())
    return found[1] if found else "?"


def build_tests(package: str, program_name: str, tags: str = "") -> Path:
    program = built("go") / program_name
    newest = max((SOURCE / name).stat().st_mtime for name in ("go.mod", "go.sum"))
    if not program.is_file() or program.stat().st_mtime < newest:
        execute(["go", "test", "-c", "-tags", tags, "-o", str(program), package], SOURCE, GOFLAGS="-mod=readonly")
    return program


def run_go_test(
    program: Path,
    test: str,
    directory: Path,
    environment: Mapping[str, str],
    *,
    timeout_s: int,
    arguments: Sequence[str] = (),
) -> Outcome:
    command = [str(program), "-test.v", f"-test.run=^{test}$", f"-test.timeout={timeout_s}s", *arguments]
    code, printed = run_test(command, environment, directory, directory / f"{test}.log", timeout_s + 30)
    result = next((result for result, name in _RESULT.findall(printed) if name == test), None)
    if result == "PASS" and code == 0:
        return Outcome(state="passed")
    said = [" ".join(each.split()) for each in _SAID.findall(printed)]
    if result == "SKIP":
        return Outcome(state="skipped", reason=said[-1] if said else "")
    panics = _PANIC.findall(printed)
    if code is None:
        return Outcome(state="failed", reason=f"no end within {timeout_s + 30} s")
    return Outcome(state="failed", reason=(panics or said or [printed[-300:]])[0])
