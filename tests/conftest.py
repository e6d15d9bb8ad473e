"""What all tests share: the order of the files, which of them one worker runs, and what CI must not skip."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from tests.amount import IS_FAST, examples
from tests.runner.chosen import NOT_BEGUN
from tests.runner.verdict import MAY_FAIL_BY_THE_HOST

# A shared machine may take any single example away for a second; time is bounded by the tests' own limits.
settings.register_profile("shared-machine", deadline=None, max_examples=examples(100))
settings.load_profile("shared-machine")

_MUST_RUN_IN_CI = {"slow", "spark", "kafka", "chromium", "toxiproxy"}
_NOT_FAST: Final = (*_MUST_RUN_IN_CI, "long", "thorough")
_FILE_MARKS: Final = re.compile(r"^pytestmark = (?:\[[^]]*\]|.*)", re.MULTILINE)
_STARTS_A_PROCESS: Final = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"})
_UNAME: Final = ["uname", "-p"]  # what `platform` asks, for whoever asks it

# Files of half a minute or more of work. They begin first, so that no worker is left alone with one at the end.
_LONGEST_FIRST = (
    "harness/test_harness_wheel_install.py",
    "reports/test_reports_exactness.py",  # and with it all that share its Spark session
    "harness/test_harness_explore_bench.py",
    "harness/test_harness_explore_deaths.py",
    "workloads/test_workloads_run.py",
    "workloads/test_workloads_transactions.py",
    "harness/test_harness_client_check.py",
    "harness/test_harness_full_disk_at_end.py",
    "harness/test_harness_host_records.py",
    "harness/test_harness_strangers_cluster.py",
    "broker_sim/test_sim_seeds.py",
    "harness/test_harness_anywhere.py",
    "harness/test_harness_torture.py",
    "harness/test_harness_worker_torture.py",
    "harness/test_harness_kafka.py",
    "harness/test_harness_interrupt.py",
    "harness/test_harness_own_topics.py",
    "benchmarks/test_benchmarks_analysis.py",
    "compatibility/test_compatibility_tools.py",
    "reports/test_reports_sweep.py",  # and with it all that make pages
    "broker_node/test_node_admin.py",
    "broker_node/test_node_faults.py",
    "reports/test_reports_anywhere.py",
    "broker_sim/test_sim_mutants.py",
    "harness/test_harness_robustness.py",
    "harness/test_harness_cluster_cli.py",
)

# These files use the fixtures of tests/reports/conftest.py: a Spark session and an analysed run, half a minute of
# work. One worker runs them all, so that both are made once.
_ONE_SPARK_SESSION: Final = frozenset(
    f"tests/reports/test_reports_{name}.py"
    for name in (
        "analysis",
        "compaction",
        "damage",
        "exactness",
        "examples",
        "interval_clocks",
        "never_arrived",
        "small_hints",
        "old_runs",
        "page",
        "partial",
        "planted",
        "planted_holes",
        "readers",
        "results_schema",
    )
)

# These make whole pages. What all pages have in common (Vega, templates, specifications) takes 3 s and is made once.
_ONE_PAGE_MAKER: Final = frozenset(
    f"tests/reports/test_reports_{name}.py"
    for name in (
        "beyond_clocks",
        "capacity",
        "clock_limits",
        "csv_columns",
        "folding",
        "front_page",
        "limits",
        "names_drawn",
        "one_number",
        "overview",
        "reading",
        "run_limits",
        "sweep",
        "telling",
        "verdict",
    )
)


class _SharedSessionScheduling(LoadFileScheduling):
    """As `--dist loadfile`: a file is one worker's. The files that share something expensive count as one."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        if file in _ONE_SPARK_SESSION:
            return "one Spark session"
        return "one page maker" if file in _ONE_PAGE_MAKER else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Ours where `--dist loadfile` was asked for, else what xdist has."""
    return _SharedSessionScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of files only: within one all stays as it is written."""
    rank = {name: number for number, name in enumerate(_LONGEST_FIRST)}
    tests = Path(__file__).parent
    items.sort(key=lambda item: rank.get(os.path.relpath(item.path, tests), len(rank)))
    _check_that_one_worker_has_the_session(items)
    if "locust" in sys.modules:
        raise pytest.UsageError("a test imports Locust, whose gevent replaces this process's threads, and pytest's own")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """`make test-fast` imports no file whose tests all have a marker that it leaves out. Nearly all of these would
    import a client, Spark or a browser's driver for nothing."""
    if not IS_FAST or not collection_path.name.startswith("test_"):
        return None
    marked = _FILE_MARKS.search(collection_path.read_text(encoding="utf-8"))
    return True if marked and any(f"mark.{name}" in marked[0] for name in _NOT_FAST) else None


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Imports make nearly no garbage, and what they make stays until the process ends. No collector looks at it."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def _check_that_one_worker_has_the_session(items: list[pytest.Item]) -> None:
    users = {item.nodeid.split("::", 1)[0] for item in items if "spark" in getattr(item, "fixturenames", ())}
    others = {file for file in users if file.startswith("tests/reports/")} - _ONE_SPARK_SESSION
    if others:
        raise pytest.UsageError(f"tests/conftest.py: add to _ONE_SPARK_SESSION: {', '.join(sorted(others))}")


class _Processes:
    """What the test that runs now has started, as Python tells its audit hooks. A hook stays for ever: there is one."""

    def __init__(self) -> None:
        self.started: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        command = arguments[1] if event == "subprocess.Popen" else ""
        if event in _STARTS_A_PROCESS and command != _UNAME:
            self.started.append(f"{event} {command}"[:200])


_PROCESSES: Final = _Processes()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    _PROCESSES.started.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test of a core starts no process, nor do its fixtures: its failure is the core's, so that it gets no second
    try."""
    result = yield
    if _PROCESSES.started and not any(item.get_closest_marker(name) for name in MAY_FAIL_BY_THE_HOST):
        pytest.fail(f"has none of the markers {', '.join(MAY_FAIL_BY_THE_HOST)}, and started {_PROCESSES.started[0]}")
    return result


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """A fresh machine has all that these tests need, so a skip there means that the set-up is broken."""
    outcome = yield
    report = outcome.get_result()
    is_broken = report.skipped and not hasattr(report, "wasxfail") and not item.stash.get(NOT_BEGUN, False)
    if os.environ.get("CI") == "true" and is_broken:
        marks = {mark.name for mark in item.iter_markers()} & _MUST_RUN_IN_CI
        if marks:
            report.outcome = "failed"
            report.longrepr = f"skipped in CI although marked {sorted(marks)}: {report.longrepr}"
