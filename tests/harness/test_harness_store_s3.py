"""The same with a bucket on a real server of the S3 protocol (make test-store), and where its credentials are not."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runlog.files.store import open_store
from tests.harness import store_runs
from tests.harness.load_workers import Workers
from tests.harness.test_harness_store_report import stored_run, without_parquet
from tests.patience import run_command
from tests.runlog import s3_server
from tests.runlog.s3_server import S3Server

pytestmark = [
    pytest.mark.slow, pytest.mark.store,
    pytest.mark.skipif(bool(s3_server.why_not()), reason=s3_server.why_not() or "it can run"),
]  # fmt: skip


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    found = S3Server(tmp_path_factory.mktemp("s3"))
    yield found
    found.stop()


@pytest.fixture
def url(server: S3Server) -> str:
    return server.bucket()


@pytest.fixture
def workers(tmp_path: Path, server: S3Server, url: str) -> Iterator[Workers]:
    found = Workers(tmp_path, "left", "right", store=url, more=server.environment)
    yield found
    found.close()


def test_a_run_by_way_of_a_bucket_and_no_credentials_anywhere(
    tmp_path: Path, workers: Workers, server: S3Server, url: str
) -> None:
    run_dir = store_runs.check_run(tmp_path, workers, url, server.environment)
    store_runs.check_kept(tmp_path, run_dir, url, server.environment)
    check_ended_cells_can_be_read_where_they_lie(server, url)
    for place in (tmp_path, server.directory / "data"):
        assert files_with(place, server.secret_key) == []
        assert files_with(place, server.access_key) == []


def test_a_run_is_made_anew_from_a_bucket_alone(tmp_path: Path, workers: Workers, server: S3Server, url: str) -> None:
    store_runs.check_lost_directory(tmp_path, workers, url, server.environment)


@pytest.mark.long
@pytest.mark.spark
def test_spark_reads_a_bucket_in_place_and_finds_the_same(tmp_path: Path, server: S3Server, url: str) -> None:
    jars = sorted((Path(os.environ.get("HARNESS_CACHE_DIR", ".cache")) / "s3a").glob("*.jar"))
    if not jars:
        pytest.skip("Spark's connector for buckets is not there (make test-store brings it)")
    connector = {"PYSPARK_SUBMIT_ARGS": f"--jars {','.join(map(str, jars))} pyspark-shell"}
    with store_runs.environment_of(server.environment):
        run_dir = stored_run(tmp_path, url)
        here = verdicts_by(run_dir, [], connector)
        without_parquet(run_dir)
        assert verdicts_by(run_dir, ["--store", url], connector) == here
    assert not list(run_dir.glob("*/cell=*"))
    assert files_with(run_dir, server.secret_key) == []


def verdicts_by(run_dir: Path, arguments: list[str], more: dict[str, str]) -> Any:
    """Of an analysis in a process of its own."""
    done = run_command(
        [sys.executable, "-m", "reports", str(run_dir), *arguments],
        env={**os.environ, **more},
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr[-3_000:]
    return json.loads((run_dir / "results" / "verdicts.json").read_text())["cells"]


def check_ended_cells_can_be_read_where_they_lie(server: S3Server, url: str) -> None:
    """By others, as the guide says: the store has the layout of a run directory."""
    import pandas as pd
    import s3fs

    with store_runs.environment_of(server.environment):
        (mark,) = open_store(url).places("")
        sent = pd.read_parquet(f"{url.removeprefix('s3://')}/{mark}/send", filesystem=s3fs.S3FileSystem())
    assert len(sent) == 990
    assert set(sent["cell"]) == {"sweep-baseline"}


def files_with(place: Path, text: str) -> list[str]:
    found = []
    for directory, _, files in os.walk(place):
        for name in files:
            path = Path(directory) / name
            if path.is_file() and text.encode() in path.read_bytes():
                found.append(str(path))
    return found
