"""What all tests share: under CI a skip of something that CI must run is a failure."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# A shared machine may take any single example away for a second; time is bounded by the tests' own limits.
settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")

_MUST_RUN_IN_CI = {"slow", "spark", "kafka", "chromium", "toxiproxy"}


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
