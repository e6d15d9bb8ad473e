"""The processes that clients under test run in, spoken to from a test process of any size."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compatibility.driver import Driver, NoAnswer

ECHO = "import sys\nfor line in sys.stdin: print('{\"result\": 7}', flush=True)"
SILENT = "import sys\nfor line in sys.stdin: pass"


@pytest.fixture
def _many_descriptors() -> Iterator[None]:
    """More than 1,024 of them, where select() ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard > 1200, "this host lets a process have too few descriptors for the test"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    try:
        with ExitStack() as opened:
            while (descriptor := os.open(os.devnull, os.O_RDONLY)) <= 1024:
                opened.callback(os.close, descriptor)
            opened.callback(os.close, descriptor)
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@pytest.mark.usefixtures("_many_descriptors")
def test_an_answer_comes_to_a_process_with_many_descriptors(tmp_path: Path) -> None:
    driver = Driver([sys.executable, "-c", ECHO], "", tmp_path / "log", {})
    try:
        assert driver.call("run", 120) == 7
    finally:
        driver.close()


@pytest.mark.slow
def test_no_answer_in_time_is_said(tmp_path: Path) -> None:
    driver = Driver([sys.executable, "-c", SILENT], "", tmp_path / "log", {})
    with pytest.raises(NoAnswer, match="nothing within 0 s"):
        driver.call("run", 0.2)
