"""SIGKILL of the harness at random moments: afterwards nothing runs, no fault stays, and what there is can be analysed.

A few kills run with the other tests, which read the run logs. `make torture` does fifty and analyses each by Spark.
TORTURE_SEED repeats the moments of an earlier time.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from harness.errors import ExitCode
from harness.run.directory.recover import recover_run
from reports.analyse.analysis import analyse
from reports.judge.verdict import judge
from reports.read.run_files import read_run
from reports.read.session import Session
from runlog.files.paths import manifest_path
from runlog.records.cell import CellStatus
from runlog.records.documents import read_run_record
from runlog.records.run import RunStatus
from tests.harness.harness_process import HarnessProcess, leases, listening_sockets, still_listening, write_suite

KILLS = int(os.environ.get("TORTURE_KILLS", "3"))
SEED = int(os.environ.get("TORTURE_SEED", "20"))
# From the first import to the last file of a run on an idle machine. A run that is slower is killed earlier.
RUN_S = 9.0
IS_ANALYSED = "TORTURE_KILLS" in os.environ

pytestmark = [pytest.mark.long, pytest.mark.slow]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession | None]:
    if not IS_ANALYSED:
        yield None
        return
    with Session(master="local[2]", small=True) as session:
        yield session


def moments() -> list[float]:
    """One in each of as many equal parts of a run, so that a handful is spread as well as fifty are."""
    source = random.Random(SEED)
    return [RUN_S * (number + source.random()) / KILLS for number in range(KILLS)]


@pytest.mark.parametrize("moment_s", moments(), ids=lambda moment: f"{moment:.2f}s")
def test_a_kill_leaves_nothing_that_clean_does_not_undo(
    tmp_path: Path, spark: SparkSession | None, moment_s: float
) -> None:
    suite = str(write_suite(tmp_path))
    process = HarnessProcess(tmp_path, "run", suite, "--run-dir", "run", "--toxiproxy", "embedded", "--no-report")
    try:
        time.sleep(moment_s)
        family = process.family()
        listeners = listening_sockets(family)
        process.send(signal.SIGKILL)
        process.wait()
        cleaning = HarnessProcess(tmp_path, "clean")
        assert cleaning.wait() == ExitCode.PASS, cleaning.screen
        cleaning.close()
        assert process.family() == {}, f"of {family}"
        assert still_listening(listeners) == set()
        assert leases(process.state_home) == []
    finally:
        process.close()
    run_dir = tmp_path / "run"
    if not manifest_path(run_dir).is_file():
        return  # killed before there was a run
    recover_run(run_dir)
    assert read_run_record(run_dir).status in (RunStatus.KILLED, RunStatus.FINISHED)
    assert list(run_dir.glob("cells/*/live/*.seg")) == []
    run = read_run(run_dir)
    for path in run_dir.glob("*/cell=*/*.parquet"):
        assert pq.read_table(path).num_rows > 0
    for facts in () if spark is None else analyse(spark, run):
        is_done = facts.cell.record.outcome.status is CellStatus.DONE
        assert judge(facts).result == ("pass" if is_done else "inconclusive"), judge(facts).reasons
