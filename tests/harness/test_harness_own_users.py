"""Users of somebody's locustfile in a run: their requests come into the report, their mistakes are told as theirs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.main import execute
from harness.errors import ExitCode
from reports.figures.own_requests import own_requests
from reports.read.cell import Cell
from reports.read.run_files import read_run
from runlog.records.cell import CellStatus
from runlog.records.stats import RequestsInAll, RequestsSample
from tests.harness.load_workers import RUN_QUIET_S
from tests.patience import communicate

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "locust" / "locustfile.py"
SUITE = """
name: shop
client: reference
workload:
  rate_per_s: 100
  record_size_bytes: 100
  warmup_ms: 300
  measure_ms: 4000
  locust: {{file: {file}, users: 3}}
topic: {{partitions: 1, replication_factor: 1}}
cluster: {{brokers: 1}}
sweep: {{baseline: {{linger.ms: 5, acks: all}}, vary: {{linger.ms: [0]}}, repetitions: 1, repeat_share: 0}}
"""
CONNECTS = """
import os, socket, time
from locust import User, constant, events, task

class Guest(User):
    wait_time = constant(0.01)

    @task
    def connect(self):
        host, port = os.environ["KAFKA_BOOTSTRAP_SERVERS"].split(",")[0].rsplit(":", 1)
        began = time.perf_counter()
        socket.create_connection((host, int(port)), timeout=10).close()
        took = (time.perf_counter() - began) * 1_000
        events.request.fire(request_type="tcp", name="connect", response_time=took, response_length=0, exception=None)
"""
pytestmark = pytest.mark.slow


def run(directory: Path, file: Path | str, *more: str) -> tuple[int | None, str, Path]:
    (directory / "suite.yaml").write_text(SUITE.format(file=file))
    run_dir = directory / "run"
    words = ["run", str(directory / "suite.yaml"), "--no-certify", "--no-report", "--run-dir", str(run_dir), *more]
    started = subprocess.Popen(
        [sys.executable, "-m", "harness", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    said = communicate(started, "a run with a locustfile", quiet_s=RUN_QUIET_S)[0]
    return started.returncode, said, run_dir


def whole_of(run_dir: Path) -> tuple[Cell, dict[tuple[str, str], RequestsInAll]]:
    (cell,) = (one for one in read_run(run_dir).cells if one.record.outcome.status is not CellStatus.ABSENT)
    assert cell.record.outcome.status is CellStatus.DONE
    return cell, {(each.source, each.request): each for each in cell.samples if isinstance(each, RequestsInAll)}


def test_the_requests_of_own_users_are_counted_by_second_and_in_all(tmp_path: Path) -> None:
    (tmp_path / "guests.py").write_text(CONNECTS)
    code, said, run_dir = run(tmp_path, "guests.py", "--cell", "sweep-baseline")
    assert code == 0, said
    cell, whole = whole_of(run_dir)
    assert cell.record.workload.locust is not None
    assert cell.record.workload.locust.users == 3
    connects = whole["tcp", "connect"]
    assert connects.requests > 0
    assert connects.failures == 0, connects.errors
    assert connects.max_us >= connects.p99_us >= connects.p50_us > 0
    seconds = [each for each in cell.samples if isinstance(each, RequestsSample)]
    assert sum(each.requests for each in seconds) == connects.requests


WAITS_IN_C = """
from gevent import monkey
from locust import User, constant, events, task

class Guest(User):
    wait_time = constant(0)

    @task
    def wait(self):
        for name in ("a", "b"):
            events.request.fire(request_type="call", name=name, response_time=1, response_length=0, exception=None)
        monkey.get_original("time", "sleep")(3)
        if len(told) > 1:
            monkey.get_original("time", "sleep")(3600)
        told.append(1)

told = []
"""


@pytest.mark.long
def test_what_users_had_told_is_there_if_they_must_be_killed(tmp_path: Path) -> None:
    """A call that waits in C lets nobody else run, not even whoever would write the whole."""
    (tmp_path / "guests.py").write_text(WAITS_IN_C)
    code, said, run_dir = run(
        tmp_path, "guests.py", "--cell", "sweep-baseline", "--set", "workload.locust.users=1",
        "--set", "workload.measure_ms=12000",
    )  # fmt: skip
    assert code == 0, said
    (cell,) = (one for one in read_run(run_dir).cells if one.record.outcome.status is not CellStatus.ABSENT)
    assert any("were killed" in note for note in cell.record.outcome.notes), cell.record.outcome.notes
    assert not [each for each in cell.samples if isinstance(each, RequestsInAll)]
    found = own_requests(cell)
    assert found is not None
    assert found.is_cut_short
    assert [row.name for row in found.rows] == ["call a", "call b"]


@pytest.mark.long
def test_the_example_writes_and_reads_with_kafka_python(tmp_path: Path) -> None:
    code, said, run_dir = run(tmp_path, EXAMPLE, "--cell", "sweep-baseline", "--set", "workload.measure_ms=30000")
    assert code == 0, said
    _, whole = whole_of(run_dir)
    assert whole.keys() == {("send", "order"), ("poll", "orders")}
    order = whole["send", "order"]
    assert order.requests > 0
    assert order.failures == 0, order.errors


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("from locust import User\nprint(1 / 0)\n", "locustfile.py:2: ZeroDivisionError"),
        pytest.param("import os\n", "locustfile.py has no User class", marks=pytest.mark.long),
    ],
)
def test_a_file_that_cannot_be_loaded_is_told_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "locustfile.py"
    file.write_text(text)
    code, said, _ = run(tmp_path, "locustfile.py", "--cell", "sweep-baseline")
    assert code != 0
    assert told in " ".join(said.split()), said


def test_a_file_that_is_not_there_is_told_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE.format(file="other.py"))
    assert execute(["run", str(tmp_path / "suite.yaml"), "--run-dir", str(tmp_path / "run")]) == ExitCode.USAGE
    assert "workload.locust.file: no such file" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()
