"""The same job on a Spark standalone cluster and by Spark Connect, both started here, says what local Spark says."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reports.outputs import Judged, write_results
from reports.session import Session, SparkUnavailableError, is_connect, require_what_it_takes
from reports.verdict import judge
from tests.reports.conftest import Planted
from tests.reports.spark_servers import connect, standalone

JOB_TIMEOUT_S = 240


def analysed_by(master: str, run: Path) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "reports", str(run), "--master", master]
    done = subprocess.run(command, capture_output=True, text=True, timeout=JOB_TIMEOUT_S)
    assert done.returncode in (0, 1, 4), done.stderr[-3000:]
    cells: list[dict[str, Any]] = json.loads((run / "results" / "verdicts.json").read_text())["cells"]
    return cells


@pytest.fixture(scope="module")
def expected(planted: Planted) -> list[dict[str, Any]]:
    document = write_results(planted.run, [Judged(facts=facts, verdict=judge(facts)) for facts in planted.facts])
    cells: list[dict[str, Any]] = json.loads(json.dumps(document))["cells"]
    return cells


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("start", [standalone, connect], ids=["standalone", "connect"])
def test_the_same_job_says_the_same_elsewhere(
    planted: Planted, expected: list[dict[str, Any]], tmp_path: Path, start: Any
) -> None:
    run = tmp_path / "run"
    shutil.copytree(planted.directory, run, ignore=shutil.ignore_patterns("results", "*.html"))
    (tmp_path / "spark").mkdir()
    with start(tmp_path / "spark") as master:
        found = analysed_by(master, run)
    assert [cell["cell_id"] for cell in found] == [cell["cell_id"] for cell in expected]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == theirs, mine["cell_id"]


def test_without_grpc_the_way_to_get_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(SparkUnavailableError, match=r"sc://h:1: .*kafka-harness\[connect\].*grpc"):
        require_what_it_takes("sc://h:1")
    with pytest.raises(SparkUnavailableError), Session(master="sc://h:1", small=True):
        raise AssertionError("a session without its client library")


def test_a_connect_server_is_known_by_its_scheme() -> None:
    assert is_connect("sc://127.0.0.1:15002")
    assert not is_connect("spark://127.0.0.1:7077")
