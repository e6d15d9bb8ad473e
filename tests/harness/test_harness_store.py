"""Run logs of load hosts by way of a shared directory, and a run from the store alone when the harness's host is lost.
tests/harness/test_harness_store_s3.py does the same with a bucket."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from runlog.files.store import open_store, read_all
from runlog.files.stored import kept_name, read_list
from tests.harness import store_runs
from tests.harness.load_workers import END_S, Workers, harness, said, started_harness
from tests.patience import communicate, files_seen, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture
def url(tmp_path: Path) -> str:
    (tmp_path / "shared").mkdir()
    return (tmp_path / "shared").as_uri()


@pytest.fixture
def workers(tmp_path: Path, url: str) -> Iterator[Workers]:
    found = Workers(tmp_path, "left", "right", store=url)
    yield found
    found.close()


def test_a_run_whose_run_logs_come_by_way_of_the_store(tmp_path: Path, workers: Workers, url: str) -> None:
    run_dir = store_runs.check_run(tmp_path, workers, url)
    store_runs.check_kept(tmp_path, run_dir, url)


def test_a_run_is_made_anew_from_the_store_alone(tmp_path: Path, workers: Workers, url: str) -> None:
    store_runs.check_lost_directory(tmp_path, workers, url)


def test_a_run_that_is_stopped_keeps_its_last_cell_in_the_store(tmp_path: Path, workers: Workers, url: str) -> None:
    (tmp_path / "long.yaml").write_text(store_runs.SHORT.replace("measure_ms: 3000", "measure_ms: 60000"))
    run_dir = tmp_path / "run"
    arguments = ["run", str(tmp_path / "long.yaml"), "--no-certify", "--no-report", "--run-dir", str(run_dir)]
    process = started_harness(tmp_path, [*arguments, *workers.options, "--load-store", url])
    try:
        wait_until(
            lambda: any(tmp_path.glob("shared/*/cells/*/hosts/*/*.seg")),
            "segments come into the store",
            seen=files_seen(tmp_path),
            poll_s=0.2,
        )
        process.send_signal(signal.SIGINT)
        communicate(process, "the end of the stopped run", quiet_s=END_S)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130, (tmp_path / "run.stderr").read_text()[-3000:]
    store = open_store(url)
    (mark,) = store.places("")
    (cell,) = store.places(f"{mark}/cells")
    listed = read_list(store, kept_name(mark, cell))
    assert listed is not None
    assert listed.is_whole
    document = json.loads(read_all(store, f"{mark}/cells/{cell}/cell.json", bytes_max=1 << 20))
    assert document["outcome"]["status"] == "interrupted"
    assert set(listed.files) >= {f"cells/{cell}/cell.json", f"send/cell={cell}/part-000000.parquet"}
    assert not [name for name in store.names(mark) if name.endswith(".seg")]


def test_a_worker_with_another_store_sends_its_run_log_over_the_link(tmp_path: Path, url: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    workers = Workers(tmp_path, "left", "right", store=(tmp_path / "elsewhere").as_uri())
    try:
        done, run_dir = store_runs.run(tmp_path, workers, url)
        assert done.returncode == 0, said(done)
        hosts = store_runs.outcome(run_dir)["load_hosts"]
        assert [(host["is_gathered"], host["files_stored"]) for host in hosts] == [(True, 0), (True, 0)]
        assert "is not the store of this run's master" in (tmp_path / "left.log").read_text()
        assert list((tmp_path / "elsewhere").iterdir()) == []
        store_runs.check_everything_is_accounted_for(run_dir)
    finally:
        workers.close()


def test_a_store_that_is_not_there_is_told_before_anything_begins(tmp_path: Path, workers: Workers) -> None:
    done, run_dir = store_runs.run(tmp_path, workers, "file:///proc/no-such-share")
    assert done.returncode == 2
    assert "there is no such directory on this host" in done.stderr
    assert not run_dir.exists()
    done = harness(tmp_path, ["run", "demo", "--load-store", "file:///tmp"])
    assert done.returncode == 2
    assert "--load-store needs --load-hosts" in done.stderr


def test_a_run_that_the_store_does_not_have_is_told_with_those_that_it_has(
    tmp_path: Path, workers: Workers, url: str
) -> None:
    done = harness(tmp_path, ["gather", str(tmp_path / "new"), "--load-store", url])
    assert done.returncode == 2
    assert "has no run new; there is none" in done.stderr
    place = tmp_path / "shared" / "harness-0123456789"
    place.mkdir()
    (place / "store.json").write_text(json.dumps({"run_id": "old", "token": ""}))
    done = harness(tmp_path, ["gather", str(tmp_path / "new"), "--load-store", url])
    assert "there is old (harness-0123456789)" in done.stderr
    shutil.rmtree(place)
    wait_until(lambda: not (tmp_path / "new" / "manifest.json").exists(), "nothing was made")
