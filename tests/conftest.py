"""What all tests share: under CI a skip of something that CI must run is a failure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A shared machine may take any single example away for a second; time is bounded by the tests' own limits.
settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")

_MUST_RUN_IN_CI = {"slow", "spark", "kafka", "chromium", "toxiproxy"}

# Files of half a minute or more of work. They begin first, so that no worker is left alone with one at the end.
_LONGEST_FIRST = (
    "harness/test_harness_wheel_install.py",
    "broker_sim/test_sim_seeds.py",
    "reports/test_reports_exactness.py",
    "harness/test_harness_anywhere.py",
    "harness/test_harness_torture.py",
    "harness/test_harness_kafka.py",
    "harness/test_harness_interrupt.py",
    "benchmarks/test_benchmarks_analysis.py",
    "compatibility/test_compatibility_tools.py",
    "broker_node/test_node_admin.py",
    "broker_node/test_node_faults.py",
    "reports/test_reports_anywhere.py",
    "benchmarks/test_benchmarks_perf_test.py",
    "broker_sim/test_sim_mutants.py",
    "harness/test_harness_hostile.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of files only: within one all stays as it is written."""
    rank = {name: number for number, name in enumerate(_LONGEST_FIRST)}
    tests = Path(__file__).parent
    items.sort(key=lambda item: rank.get(os.path.relpath(item.path, tests), len(rank)))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """A fresh machine has all that these tests need, so a skip there means that the set-up is broken."""
    outcome = yield
    report = outcome.get_result()
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        marks = {mark.name for mark in item.iter_markers()} & _MUST_RUN_IN_CI
        if marks:
            report.outcome = "failed"
            report.longrepr = f"skipped in CI although marked {sorted(marks)}: {report.longrepr}"
