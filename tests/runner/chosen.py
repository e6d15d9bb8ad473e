"""A plug-in of pytest (`-p tests.runner.chosen --chosen=FILE`) that keeps to a choice of long tests, and to its budget.

Each worker of pytest-xdist reads the same file, so that all collect the same tests.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Final

import pytest

from tests.runner.choice import Choice, told

_CHOICE: Final = pytest.StashKey[Choice]()
_BEGAN_S: Final = pytest.StashKey[float]()
_TOO_LATE: Final = "its turn came after the budget"
NOT_BEGUN: Final = pytest.StashKey[bool]()  # of a test whose turn came after the budget


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--chosen", metavar="FILE", help="a choice of long tests, as tests.runner.changed writes it")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_CHOICE] = Choice.of_json(json.loads(Path(config.getoption("--chosen")).read_text()))
    config.stash[_BEGAN_S] = time.monotonic()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    choice = config.stash[_CHOICE]
    kept = [item for item in items if choice.is_chosen(item.nodeid)]
    gone = [item for item in items if not choice.is_chosen(item.nodeid)]
    config.hook.pytest_deselected(items=gone)
    place = {file: number for number, file in enumerate(choice.files_in_order(item.nodeid for item in kept))}
    kept.sort(key=lambda item: place[item.nodeid.split("::", 1)[0]])
    items[:] = kept


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    budget_s = item.config.stash[_CHOICE].begins_within_s(has_own_limit=item.get_closest_marker("timeout") is not None)
    if time.monotonic() - item.config.stash[_BEGAN_S] > budget_s:
        item.stash[NOT_BEGUN] = True
        pytest.skip(f"{_TOO_LATE} of {budget_s:.0f} s")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Only the process that collects the outcomes has any."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    tests = {report.nodeid for report in reports if isinstance(report, pytest.TestReport)}
    late = {report.nodeid for report in terminalreporter.stats.get("skipped", ()) if _TOO_LATE in str(report.longrepr)}
    if tests:
        terminalreporter.write_line(told(config.stash[_CHOICE], tests - late, late))
