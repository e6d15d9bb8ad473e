"""Fixtures of the tests that start a real harness, or load hosts for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.harness_process import HarnessProcess, Start
from tests.harness.load_workers import Workers


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a harness with these arguments. All that were started have ended afterwards."""
    started: list[HarnessProcess] = []

    def begin(*arguments: str) -> HarnessProcess:
        started.append(HarnessProcess(tmp_path, *arguments))
        return started[-1]

    yield begin
    for process in started:
        process.close()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    found = Workers(tmp_path, "left", "right")
    yield found
    found.close()
