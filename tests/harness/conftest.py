"""Fixtures of the tests that stop a real harness."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.harness_process import HarnessProcess, Start


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
