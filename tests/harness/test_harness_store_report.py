"""`harness report` of a run whose run log stays in its store: Spark reads it there, and every part is held against its
checksum before. With a shared directory here; with a bucket in test_harness_store_s3.py."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.errors import ExitCode
from harness.run.hosts.store_copy import keep_cell
from reports.evidence.completeness import cell_files
from reports.job import Lent, Request, carry_out
from reports.read.errors import UsageProblem
from reports.read.parts import stored_at
from reports.read.run_files import read_run
from reports.read.session import Session
from reports.read.spark_needs import JavaMissingError, require_java
from runlog.files.store import Store, open_store
from runlog.files.stored import manifest_name, token_name
from tests.harness.load_workers import harness, said
from tests.reports.synthetic_run import Damage, SyntheticCell, write_run

pytestmark = [pytest.mark.slow, pytest.mark.spark]
MARK = "harness-0123456789"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    try:
        require_java()
    except JavaMissingError as error:
        pytest.skip(str(error))
    with Session(master="local[2]", small=True) as session:
        yield session


def stored_run(directory: Path, url: str) -> Path:
    """A run that is whole here and in the store, where its harness has put it."""
    cells = [
        SyntheticCell(cell_id="calm").build(),
        SyntheticCell(cell_id="lossy", damage=Damage(lost_batches=3), seed=2).build(),
    ]
    run_dir = write_run(directory / "planted", cells, mark=MARK)
    store: Store = open_store(url)
    store.put_bytes(token_name(MARK), json.dumps({"run_id": "planted", "token": "0" * 32}).encode())
    store.put_file(manifest_name(MARK), run_dir / "manifest.json")
    for cell in cells:
        keep_cell(store, MARK, run_dir, cell.cell_id, lambda: False)
    return run_dir


@pytest.fixture
def url(tmp_path: Path) -> str:
    (tmp_path / "shared").mkdir()
    return (tmp_path / "shared").as_uri()


def verdicts(spark: SparkSession, run_dir: Path, store: str | None = None) -> Any:
    carry_out(
        Request(run_dir=run_dir, master="local[2]", allow=None, analysis_id="a" * 16, store=store), session=Lent(spark)
    )
    return json.loads((run_dir / "results" / "verdicts.json").read_text())["cells"]


def without_parquet(run_dir: Path) -> None:
    for place in run_dir.glob("*/cell=*"):
        shutil.rmtree(place)


@pytest.mark.long
def test_what_spark_reads_in_the_store_has_the_same_verdicts(tmp_path: Path, url: str, spark: SparkSession) -> None:
    run_dir = stored_run(tmp_path, url)
    here = verdicts(spark, run_dir)
    assert here[0]["verdict"] == "pass"
    assert here[1]["lost"] > 0
    without_parquet(run_dir)
    assert verdicts(spark, run_dir, url) == here
    assert not list(run_dir.glob("*/cell=*/*.parquet")), "nothing was fetched"
    # Without the store it is gone. What the brokers' journal shows of the ISR is there all the same.
    alone = verdicts(spark, run_dir)
    assert [cell["verdict"] for cell in alone] == ["inconclusive", here[1]["verdict"]]
    assert alone[1]["anomalies"] == {"isr_never_recovers": 1}
    assert alone[1]["lost"] == 0
    for cell in alone:
        assert {check["name"]: check["result"] for check in cell["checks"]}["run log readable"] == "inconclusive"


def test_a_part_that_changed_in_the_store_is_named(tmp_path: Path, url: str) -> None:
    run_dir = stored_run(tmp_path, url)
    without_parquet(run_dir)
    part = next((tmp_path / "shared" / MARK / "send" / "cell=calm").glob("*.parquet"))
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    (tmp_path / "shared" / MARK / "log" / "cell=calm").rename(tmp_path / "gone")
    read = read_run(run_dir)
    files = cell_files(replace(read, stored=stored_at(url, read.record)))
    assert files["lossy"].problems == ()
    assert set(files["calm"].problems) == {
        f"send/{part.name}: unreadable: its bytes are not those that were written", "log/part-000000.parquet: missing",
    }  # fmt: skip
    assert files["calm"].rows["send"] == 0, "Spark does not see it"


def test_a_store_without_the_run_is_told_before_spark_starts(tmp_path: Path, url: str, spark: SparkSession) -> None:
    run_dir = stored_run(tmp_path, url)
    shutil.rmtree(tmp_path / "shared" / MARK)
    with pytest.raises(UsageProblem, match=f"has no cell of this run \\({MARK}\\)"):
        verdicts(spark, run_dir, url)
    with pytest.raises(UsageProblem, match="no such directory"):
        verdicts(spark, run_dir, "file:///proc/no-such-share")
    (run_dir / "manifest.json").write_text('{"cells": [], "status": "finished"}')
    with pytest.raises(UsageProblem, match="does not say under which name"):
        verdicts(spark, run_dir, url)


@pytest.mark.long
def test_a_lost_directory_is_reported_on_from_the_store_alone(tmp_path: Path, url: str) -> None:
    """Documents come and are verified; the run log stays where it is."""
    run_dir = stored_run(tmp_path, url)
    run_dir.rename(tmp_path / "before")
    done = harness(tmp_path, ["report", str(run_dir), "--load-store", url])
    assert done.returncode == ExitCode.FAIL, said(done)  # what was planted leaves a replica out of the ISR
    assert "20 = 20 lost" in done.stdout
    assert done.stderr.count("all verified") == 2
    assert (run_dir / "report.html").is_file()
    assert not list(run_dir.glob("*/cell=*"))
