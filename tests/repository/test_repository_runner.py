"""The runner of the tests: who gets a second try, what fails a run, and which long tests a change gets."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.patience import run_command, wait_until
from tests.runner import __main__ as runner
from tests.runner.choice import PARTS, TURN_S, Choice, part_at, part_of, told
from tests.runner.history import add, counted
from tests.runner.imports import arrows, distances
from tests.runner.outcomes import Failure, Outcomes, read_outcomes
from tests.runner.verdict import TRIED_AGAIN_MAX, UNSTEADY_MAX, judge, may_try_again

ROOT = Path(__file__).parents[2]


# -- outcomes and verdict


def report(test: str, when: str = "call", outcome: str = "passed", longrepr: Any = None) -> str:
    return json.dumps(
        {"$report_type": "TestReport", "nodeid": test, "when": when, "outcome": outcome, "longrepr": longrepr}
    )


def outcomes(*, passed: int = 0, **failures: str) -> Outcomes:
    """`failures`: what each failed test told."""
    return Outcomes(
        passed={f"ok-{number}" for number in range(passed)},
        failures={name: Failure(test=name, when="call", told=told) for name, told in failures.items()},
    )


def test_the_log_of_a_run_is_read_by_test() -> None:
    lines = [
        json.dumps({"$report_type": "SessionStart", "pytest_version": "9"}),
        json.dumps({"$report_type": "CollectReport", "nodeid": "b.py", "outcome": "failed", "longrepr": "no module x"}),
        report("a.py::passes", "setup"),
        report("a.py::passes"),
        report("a.py::passes", "teardown"),
        report("a.py::fails", "setup"),
        report("a.py::fails", "call", "failed", {"reprcrash": {"path": "a.py", "lineno": 3, "message": "1 is not 2"}}),
        report("a.py::fails at the end"),
        report("a.py::fails at the end", "teardown", "failed", "left behind"),
        report("a.py::skipped", "setup", "skipped"),
        report("a.py::died", "???", "failed", "worker 'gw0' crashed"),
        '{"$report_type": "TestRep',
    ]
    found = read_outcomes(lines)
    assert (found.passed, found.skipped) == ({"a.py::passes"}, {"a.py::skipped"})
    assert {name: (each.when, each.told) for name, each in found.failures.items()} == {
        "b.py": ("collect", "no module x"),
        "a.py::fails": ("call", "a.py:3: 1 is not 2"),
        "a.py::fails at the end": ("teardown", "left behind"),
        "a.py::died": ("???", "worker 'gw0' crashed"),
    }


def test_what_passes_alone_is_told_and_counted_and_the_run_passes() -> None:
    verdict = judge(outcomes(passed=5, slow="late\nnot within 60 s"), Outcomes(passed={"slow"}))
    assert verdict.is_pass
    assert verdict.lines() == [
        "unsteady, failed once and passed alone (at most 3 are allowed):",
        "  slow, at call:",
        "    late",
        "    not within 60 s",
        "6 passed, 0 failed, 0 skipped",
    ]


@pytest.mark.parametrize(
    "second",
    [outcomes(broken="again"), Outcomes(), Outcomes(skipped={"broken"})],
    ids=["fails again", "gets no second try", "is skipped"],
)
def test_what_does_not_pass_alone_fails_the_run(second: Outcomes) -> None:
    verdict = judge(outcomes(passed=5, broken="x"), second)
    assert not verdict.is_pass
    assert verdict.lines()[-1] == "5 passed, 1 failed, 0 skipped"


def test_one_real_failure_beside_an_unsteady_test_fails_the_run() -> None:
    verdict = judge(outcomes(broken="x", slow="y"), Outcomes(passed={"slow"}))
    assert not verdict.is_pass
    assert verdict.lines()[0] == "FAILED broken: x"


def test_more_unsteady_tests_than_may_be_fail_the_run() -> None:
    names = [f"t{number}" for number in range(UNSTEADY_MAX + 1)]
    some, all_of_them = names[:-1], names
    for tests, passes in ((some, True), (all_of_them, False)):
        verdict = judge(outcomes(**dict.fromkeys(tests, "x")), Outcomes(passed=set(tests)))
        assert verdict.is_pass is passes
    assert verdict.lines()[-2:] == ["FAILED: 4 unsteady tests, at most 3 may be", "4 passed, 4 failed, 0 skipped"]


def test_a_fixture_that_a_file_shares_counts_once_when_it_fails() -> None:
    tests = [f"a.py::t{number}" for number in range(20)]
    first = Outcomes(failures={name: Failure(test=name, when="setup", told="no broker") for name in tests})
    assert may_try_again(first) == tests
    verdict = judge(first, Outcomes(passed=set(tests)))
    assert verdict.incidents == 1
    assert verdict.is_pass


def test_a_file_that_cannot_be_collected_and_a_heap_of_failures_get_no_second_try() -> None:
    first = Outcomes(failures={"b.py": Failure(test="b.py", when="collect", told="x")})
    assert may_try_again(first) == []
    assert may_try_again(outcomes(**{f"t{number}": "x" for number in range(TRIED_AGAIN_MAX + 1)})) == []


def test_the_history_counts_each_test_and_survives_a_half_line(tmp_path: Path) -> None:
    path = tmp_path / "state" / "unsteady.jsonl"
    for name in ("a", "b", "a"):
        add(path, [Failure(test=name, when="call", told=f"first\n{name} was late")], at_s=1, commit="c", load=2.5)
    lines = [*path.read_text().splitlines(), '{"test": "a', "3"]
    assert counted(lines) == [(2, "a", "a was late"), (1, "b", "b was late")]


# -- the whole, with real runs of pytest

PLANTED = """
import os, pathlib, pytest

def fails_once(name):
    mark = pathlib.Path(os.environ["PLANTED"]) / name
    was_there = mark.exists()
    mark.touch()
    assert was_there, f"{name} came late"

def test_holds():
    pass
"""
CORE = "\ndef test_core():\n    fails_once('core')\n"
PROCESS = "\n@pytest.mark.slow\ndef test_process():\n    fails_once('process')\n"
BROKEN = "\n@pytest.mark.slow\ndef test_broken():\n    assert False, 'always'\n"
HANGS = """
@pytest.mark.slow
def test_hangs():
    import time
    try:
        fails_once('hangs')
    except AssertionError:
        while True:  # what ends a test by an exception does not end this one
            try:
                time.sleep(3600)
            except BaseException:
                pass

@pytest.mark.slow
def test_after_it():
    pass
"""
DIES = "\n@pytest.mark.slow\ndef test_dies():\n    try: fails_once('dies')\n    except AssertionError: os._exit(1)\n"


def run_planted(directory: Path, source: str, *options: str) -> tuple[int, str, list[dict[str, Any]]]:
    """Exit code, what was printed, the history of unsteady tests."""
    (directory / "test_planted.py").write_text(PLANTED + source)
    (directory / "pytest.ini").write_text(
        "[pytest]\nfaulthandler_exit_on_timeout = true\nmarkers =\n    slow: real processes\n    long: minutes\n"
    )
    history = directory / "unsteady.jsonl"
    environment = {"PLANTED": str(directory), "UNSTEADY_TESTS": str(history), "PYTHONPATH": str(ROOT), "CI": ""}
    command = [sys.executable, "-m", "tests.runner", *options]
    done = run_command(command, cwd=directory, env={**os.environ, **environment})
    kept = [json.loads(line) for line in history.read_text().splitlines()] if history.exists() else []
    return done.returncode, done.stdout + done.stderr, kept


@pytest.mark.slow
def test_a_planted_failure_of_a_core_fails_the_run(tmp_path: Path) -> None:
    code, told, kept = run_planted(tmp_path, CORE)
    assert code == 1, told
    assert told.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"
    assert kept == []


@pytest.mark.slow
@pytest.mark.parametrize(("source", "name"), [(PROCESS, "test_process"), (DIES, "test_dies")], ids=["fails", "dies"])
def test_a_planted_defect_that_one_try_of_two_shows_is_told_and_counted(tmp_path: Path, source: str, name: str) -> None:
    code, told, kept = run_planted(tmp_path, source, "-n", "1")
    assert code == 0, told
    assert told.splitlines()[-1] == "2 passed, 0 failed, 0 skipped"
    assert f"  test_planted.py::{name}, at" in told
    assert [event["test"] for event in kept] == [f"test_planted.py::{name}"]
    assert "Unknown pytest.mark" not in told, "a worker has not read the settings"


@pytest.mark.slow
def test_what_hangs_so_that_no_exception_ends_it_is_told_with_its_stack_and_the_run_goes_on(tmp_path: Path) -> None:
    code, told, kept = run_planted(tmp_path, HANGS, "-n", "1", "-o", "timeout=1", "-o", "faulthandler_timeout=3")
    assert code == 0, told
    assert "3 passed, 0 failed, 0 skipped" in told.splitlines(), told
    assert "Timeout (0:00:03)!" in told
    assert re.search(r'test_planted\.py", line \d+ in test_hangs', told), told
    assert [event["test"] for event in kept] == ["test_planted.py::test_hangs"]


SLEEPS_WITH_A_CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(3600)'])"


@pytest.mark.slow
def test_a_run_that_reports_nothing_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "_QUIET_MAX_S", 0.2)
    monkeypatch.setattr(runner, "_LOOK_S", 0.1)
    process = subprocess.Popen([sys.executable, "-c", SLEEPS_WITH_A_CHILD])
    family = wait_until(lambda: psutil.Process(process.pid).children(), "the child")
    assert runner._waited_for(process, tmp_path / "log") == runner._HANGS
    assert "no test has ended for 0 s" in capsys.readouterr().out
    assert process.returncode is not None
    wait_until(lambda: not any(each.is_running() for each in family), "the end of the child")


@pytest.mark.slow
def test_what_fails_twice_fails_the_run_although_it_has_processes(tmp_path: Path) -> None:
    code, told, kept = run_planted(tmp_path, PROCESS + BROKEN)
    assert code == 1, told
    assert "FAILED test_planted.py::test_broken: " in told
    assert told.splitlines()[-1] == "2 passed, 1 failed, 0 skipped"
    assert [event["test"] for event in kept] == ["test_planted.py::test_process"]


STARTS = """
import subprocess, sys, pytest

def start():
    subprocess.run([sys.executable, "-c", ""], check=True)

@pytest.fixture
def started():
    start()

def test_itself():
    start()

def test_fixture(started):
    pass

@pytest.mark.slow
def test_marked():
    start()
"""


@pytest.mark.slow
def test_a_test_of_a_core_that_starts_a_process_fails_and_says_which_marker_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "test_starts.py").write_text(STARTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow: real processes\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest"]
    done = run_command(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("has none of the markers slow, spark") >= 2


# -- which long tests


SOURCES = {
    "broker/__init__.py": "",
    "broker/log.py": "import os",
    "broker/node/__init__.py": "",
    "broker/node/__main__.py": "from broker import log",
    "chaos/__init__.py": "",
    "chaos/faults.py": "from .model import Fault",
    "chaos/model.py": "",
    "tests/broker/helper.py": "command = [python, '-m', 'broker.node', path]",
    "tests/broker/test_log.py": "from broker.log import Segment",
    "tests/broker/test_node.py": "from helper import Cluster",
    "tests/chaos/helper.py": "",
    "tests/chaos/test_faults.py": "import chaos.faults\nimport helper\nMODULE = 'broker.node'",
    "tests/chaos/test_scenarios.py": "NAME = 'leader-loss'",
}


def test_arrows_lead_along_imports_and_to_what_is_started_as_a_process() -> None:
    found = arrows(SOURCES)
    assert found["tests/broker/test_node.py"] == {"tests/broker/helper.py"}
    assert found["tests/broker/helper.py"] == {"broker/node/__main__.py"}
    assert found["chaos/faults.py"] == {"chaos/model.py"}
    assert found["tests/chaos/test_faults.py"] == {
        "chaos/faults.py",
        "tests/chaos/helper.py",
        "broker/node/__main__.py",
    }
    assert found["broker/node/__main__.py"] == {"broker/__init__.py", "broker/log.py"}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            "broker/log.py",
            {"tests/broker/test_log.py": 1, "tests/broker/test_node.py": 3, "tests/chaos/test_faults.py": 2},
        ),
        ("chaos/model.py", {"tests/chaos/test_faults.py": 2}),
        ("tests/broker/test_log.py", {"tests/broker/test_log.py": 0}),
        ("chaos/scenarios/leader-loss.yaml", {"tests/chaos/test_faults.py": 1, "tests/chaos/test_scenarios.py": 0}),
        ("docs/gaps.md", {}),
        ("broker/gone.py", {}),
    ],
)
def test_a_change_touches_the_tests_from_which_arrows_lead_to_it(changed: str, expected: dict[str, int]) -> None:
    assert distances(SOURCES, [changed]) == expected


def test_the_tenths_hold_every_test_once_and_take_turns() -> None:
    tests = [f"tests/a/test_{number}.py::test" for number in range(500)]
    parts = [[test for test in tests if part_of(test) == part] for part in range(PARTS)]
    assert sorted(chain(*parts)) == sorted(tests)
    assert all(20 <= len(part) <= 90 for part in parts)
    assert [part_at(turn * TURN_S) for turn in range(PARTS + 1)] == [*range(PARTS), 0]


def test_touched_files_and_those_of_the_tenth_come_in_turns_the_nearest_first() -> None:
    far, near = "tests/a/test_far.py", "tests/a/test_near.py"
    others = [f"tests/b/test_{number}.py::test" for number in range(40)]
    part = part_of(others[0])
    choice = Choice(steps={far: 3, near: 0}, part=part, budget_s=60)
    chosen = [test for test in [f"{far}::t", f"{near}::t", *others] if choice.is_chosen(test)]
    assert others[0] in chosen
    assert len(chosen) < 2 + len(others)
    order = choice.files_in_order(chosen)
    assert (order[0], order[2]) == (near, far)
    assert len(order) == len(chosen)
    assert told(choice, chosen[:3], chosen[3:]).startswith("long tests: 2 that the change touches, 1 of part ")


def test_of_a_change_that_touches_all_each_part_begins_with_other_files() -> None:
    files = [f"tests/a/test_{number}.py" for number in range(100)]
    tests = [f"{file}::t" for file in files]
    steps = dict.fromkeys(files, 0)
    orders = [Choice(steps=steps, part=part, budget_s=60).files_in_order(tests) for part in range(PARTS)]
    assert all(sorted(order) == sorted(files) for order in orders)
    assert len({file for order in orders for file in order[:10]}) > 50


def test_a_choice_is_the_same_for_each_worker() -> None:
    choice = Choice(steps={"tests/a.py": 1}, part=3, budget_s=60)
    assert Choice.of_json(json.loads(json.dumps(choice.as_json()))) == choice


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget_s", "expected"),
    [(600, "3 passed, 1 deselected"), (-1, "3 skipped, 1 deselected")],
    ids=["time for all", "no time"],
)
def test_a_choice_leaves_out_and_its_budget_ends(tmp_path: Path, budget_s: float, expected: str) -> None:
    """Also with CI=true, where a skipped test with processes is a failure otherwise."""
    source = "import pytest\n@pytest.mark.slow\ndef test_it():\n    pass\n"
    for name in ("near", "far", "other"):
        (tmp_path / f"test_{name}.py").write_text(source)
    (tmp_path / "test_large.py").write_text(source.replace("def", "@pytest.mark.timeout(1_000)\ndef"))
    done = run_chosen(tmp_path, budget_s, {"test_near.py": 0, "test_far.py": 2, "test_large.py": 1})
    assert expected in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_what_may_take_longer_than_all_others_begins_in_the_first_third() -> None:
    choice = Choice(steps={}, part=0, budget_s=480)
    assert (choice.begins_within_s(has_own_limit=False), choice.begins_within_s(has_own_limit=True)) == (480, 160)


def run_chosen(directory: Path, budget_s: float, steps: dict[str, int]) -> subprocess.CompletedProcess[str]:
    (directory / "pytest.ini").write_text("[pytest]\nmarkers = slow: real processes\n")
    part = next(part for part in range(PARTS) if part != part_of("test_other.py::test_it"))
    chosen = directory / "chosen.json"
    chosen.write_text(json.dumps(Choice(steps=steps, part=part, budget_s=budget_s).as_json()))
    return run_command(
        [sys.executable, "-m", "pytest", "-c", str(directory / "pytest.ini"), "--rootdir", str(directory), "-p",
         "tests.conftest", "-p", "tests.runner.chosen", "--chosen", str(chosen), str(directory)],
        cwd=ROOT, env={**os.environ, "CI": "true"},
    )  # fmt: skip


@pytest.mark.slow
def test_the_last_commit_of_this_repository_touches_something_or_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.runner.changed", "--base"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip()) == 40
