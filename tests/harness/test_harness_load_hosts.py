"""Load hosts as a user has them: keys, workers, a run over two of them, and what the run directory says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import execute
from harness.errors import UsageError
from harness.run.hosts.load_hosts import added_up, load_hosts_request, problems_of
from runlog.records.hosts import ClockRecord, HostState, LoadHostRecord, clock_error_between_us
from runlog.records.load import HostCeiling
from runlog.streams.parquet import read_stream
from tests.harness.load_workers import Workers, harness, said
from workloads.hosts.keys import write_keys

SUITE = """
name: two-hosts
workload: {rate_per_s: 1000, record_size_bytes: 100, producers: 2, consumers: 1, warmup_ms: 300, measure_ms: 1500,
  drain_ms: 30000}
topic: {partitions: 2, replication_factor: 1}
cluster: {brokers: 1}
sweep: {baseline: {linger.ms: 5}, vary: {linger.ms: [5]}, repetitions: 1, repeat_share: 0}
"""


def host(name: str, *, producers: tuple[int, ...], consumers: tuple[int, ...] = (), error_us: float = 0) -> Any:
    clock = ClockRecord(offset_us=0, error_us=error_us, samples=9, round_trip_us_min=1)
    return LoadHostRecord(
        name=name, state=HostState.DONE, producers=producers, consumers=consumers, clock=clock, is_gathered=True
    )


def test_ceilings_add_up_over_the_hosts_that_are_there() -> None:
    parts = (HostCeiling(host="a", records_per_s=100.0), HostCeiling(host="b", records_per_s=50.5))
    assert added_up(parts, frozenset("ab")) == 150.5
    assert added_up(parts, frozenset("b")) == 50.5


def test_a_host_without_a_ceiling_is_named() -> None:
    parts = (HostCeiling(host="a", records_per_s=100.0), HostCeiling(host="b", why="no broker could be started"))
    with pytest.raises(ValueError, match="load host b: no broker"):
        added_up(parts, frozenset("ab"))


def test_latencies_between_hosts_are_as_wrong_as_both_clocks_and_of_one_host_not_at_all() -> None:
    one = host("a", producers=(0,), consumers=(0,), error_us=100)
    assert clock_error_between_us([one]) == 0
    silent = host("b", producers=(1,), error_us=30)
    assert clock_error_between_us([one, silent]) == 130, "a reads what b sent"
    assert clock_error_between_us([host("a", producers=(0,)), silent]) == 0, "nobody reads"


def test_what_was_wrong_with_a_host_is_told_by_name() -> None:
    dead = LoadHostRecord(name="b", state=HostState.DEAD, reason="was not heard of for 45 s")
    assert problems_of((host("a", producers=(0,)), dead)) == ("load host b: was not heard of for 45 s",)


@pytest.mark.parametrize("listen", ["5557", "host:", ":5557", "host:0", "host:70000", "host:x"])
def test_a_wrong_address_is_refused(tmp_path: Path, listen: str) -> None:
    master, _ = write_keys(tmp_path)
    with pytest.raises(UsageError, match="--load-listen"):
        load_hosts_request(1, listen, master)


def test_options_that_do_not_fit_together_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    master, worker = write_keys(tmp_path / "keys")
    for arguments, what in (
        (["run", "demo", "--load-hosts", "2"], "--load-key"),
        (["run", "demo", "--load-key", str(master)], "--load-hosts"),
        (["run", "demo", "--load-hosts", "2", "--load-key", str(worker)], "master"),
        (["run", "demo", "--load-hosts", "2", "--load-key", str(master), "--web"], "--web"),
        (["worker", "--master", "x", "--key", str(worker)], "--master"),
        (["worker", "--master", "x:1", "--key", str(master)], "worker"),
        (["worker", "--master", "x:1", "--key", str(worker), "--name", "a/b"], "--name"),
        (["load-keys", str(tmp_path / "keys")], "exists"),
    ):
        assert execute([*arguments, *(["--dry-run", "--no-report"] if arguments[0] == "run" else [])]) == 2
        assert what in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.slow
def test_a_run_over_two_load_hosts(tmp_path: Path, workers: Workers) -> None:
    """The commands of docs/guide/load-hosts.md, on one machine: doctor, then run."""
    (tmp_path / "suite.yaml").write_text(SUITE)
    seen = harness(tmp_path, ["doctor", *workers.options])
    assert seen.returncode == 0, said(seen)
    assert [line.split(":")[0] for line in seen.stdout.splitlines()] == [
        "ok       load host left", "ok       load host right",
    ]  # fmt: skip
    run_dir = tmp_path / "run"
    done = harness(
        tmp_path,
        ["run", str(tmp_path / "suite.yaml"), "--no-report", "--run-dir", str(run_dir), *workers.options],
    )
    assert done.returncode == 0, said(done)
    manifest = json.loads((run_dir / "manifest.json").read_text())
    certification = manifest["certification"]
    for certificate in certification["certificates"]:
        assert "on 2 load hosts" in certificate["shape"]
        assert certificate["records_per_s"] > 0
    # On a host that is full a ceiling may not be measured in time. Then it is said whose, and the run goes on.
    assert certification["certificates"] or any("load host" in problem for problem in certification["problems"]), (
        certification
    )
    (cell_id,) = manifest["cells"]
    cell = json.loads((run_dir / "cells" / cell_id / "cell.json").read_text())
    hosts = cell["outcome"]["load_hosts"]
    assert [(one["name"], one["producers"], one["consumers"], one["is_gathered"]) for one in hosts] == [
        ("left", [0], [0], True), ("right", [1], [], True),
    ]  # fmt: skip
    assert all(abs(one["clock"]["offset_us"]) <= one["clock"]["error_us"] for one in hosts), "it is one machine"
    sent = read_stream(run_dir, "send", cell_id)
    assert sent.num_rows == 1000 * 1.8
    assert set(sent["status"].to_pylist()) == {0}
    assert read_stream(run_dir, "log", cell_id).num_rows == sent.num_rows
    assert cell["outcome"]["final_read"]["complete"]
    assert not list(workers.spool.glob("*/*/cells")), "what is here is forgotten there"
    secrets = json.loads(workers.master_key.read_text())["secret"]
    assert not any(secrets.encode() in path.read_bytes() for path in run_dir.rglob("*") if path.is_file())


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("client", ["confluent", "java", "aiokafka", "kafka_python"])
def test_every_client_runs_on_two_load_hosts(tmp_path: Path, workers: Workers, client: str) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE)
    run_dir = tmp_path / "run"
    options = ["--client", client, "--no-certify", "--no-report", "--run-dir", str(run_dir), *workers.options]
    done = harness(tmp_path, ["run", str(tmp_path / "suite.yaml"), *options])
    assert done.returncode == 0, said(done)
    sent, log = read_stream(run_dir, "send", "sweep-baseline"), read_stream(run_dir, "log", "sweep-baseline")
    assert sent.num_rows == log.num_rows == 1000 * 1.8
    assert set(sent["producer"].to_pylist()) == {0, 1}
    assert set(sent["status"].to_pylist()) == {0}
