"""Nobody reads what the harness or a worker says: brokers are healed and a load goes on all the same."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaos.fault_host.host import FaultHost
from chaos.fault_host.proxies import ProxyFaults
from chaos.fault_host.request_record import RequestRecord
from chaos.process_identity import read_state
from harness.cleanup_steps import undo_all
from harness.cli.hosts import fault_worker
from harness.clusters.ports import free_port
from harness.errors import ExitCode
from harness.terminal.operator_log import LINES_MAX, Saying
from harness.terminal.progress import Progress
from harness.terminal.signals import StopFlag
from tests.chaos.operators import Operator
from tests.patience import wait_process, wait_until
from workloads.hosts.keys import read_key, write_keys


class Broken(io.StringIO):
    """A pipe whose reader is gone, or a file on a full disk."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def write(self, _text: str) -> int:
        raise self._error


class Stopped(io.StringIO):
    """A terminal that was stopped by Ctrl-S, until `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def write(self, text: str) -> int:
        self.go.wait(60.0)
        return super().write(text)


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), OSError(28, "No space"), ValueError("closed")])
def test_a_stream_that_takes_nothing_is_no_error(error: Exception) -> None:
    saying = Saying(Broken(error))
    saying.say("broker 1 goes on")
    saying.close()
    progress = Progress(1, Broken(error))
    progress.begin_cell(1, "a cell", 1.0)
    progress.phase("heal")
    progress.say("a line")
    progress.end_cell("done")


@pytest.mark.parametrize("is_full", [False, True], ids=["the reader is gone", "the reader does not read"])
def test_the_first_ctrl_c_neither_raises_nor_waits(is_full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`harness run … | tee log`: the same Ctrl-C ends `tee`. The handler runs in the middle of whatever goes on."""
    reading, writing = os.pipe()
    if is_full:
        fill(writing)
    else:
        os.close(reading)
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        flag = StopFlag()
        flag.on_signal(signal.SIGINT, None)
        assert flag.is_set()
        monkeypatch.undo()
    if is_full:
        os.close(reading)


def fill(writing: int) -> None:
    """Until the pipe takes no more."""
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)


def test_nobody_waits_for_a_stopped_terminal() -> None:
    terminal = Stopped()
    saying = Saying(terminal)
    for number in range(2 * LINES_MAX):
        saying.say(f"line {number}")
    terminal.go.set()
    saying.close()
    lines = terminal.getvalue().splitlines()
    assert lines[-1] == f"line {2 * LINES_MAX - 1}"
    assert len(lines) <= LINES_MAX + 1


def test_only_text_reaches_the_terminal() -> None:
    stream = io.StringIO()
    saying = Saying(stream)
    saying.say("a\x1b[2Jb\nc")
    saying.close()
    assert stream.getvalue() == "a?[2Jb?c\n"


@pytest.fixture
def paused(tmp_path: Path) -> Iterator[Operator]:
    """Both brokers are paused by a worker that was killed."""
    operator = Operator(tmp_path)
    for broker in (1, 2):
        operator.start(broker)
    worker = operator.worker()
    for broker in (1, 2):
        worker.act("pause", broker)
    operator.forget_worker()
    yield operator
    operator.clean()


def permits_file(operator: Operator) -> Path:
    path = operator.directory / "permits.yaml"
    path.write_text(operator.permits())
    path.chmod(0o600)
    return path


def start_worker(operator: Operator, stderr: int) -> subprocess.Popen[bytes]:
    """Its leases are those of the worker before."""
    _, key = write_keys(operator.directory / "keys")
    state = operator.directory / "state" / "kafka-harness"
    state.mkdir(parents=True, mode=0o700)
    (operator.directory / "leases").rename(state / "fault-leases")
    return subprocess.Popen(
        [
            sys.executable, "-m", "harness", "worker", "--master", f"127.0.0.1:{free_port()}", "--key", str(key),
            "--name", "here", "--allow-faults", str(permits_file(operator)),
        ],
        stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, start_new_session=True,
        env={**os.environ, "XDG_STATE_HOME": str(operator.directory / "state")},
    )  # fmt: skip


def both_go_on(operator: Operator) -> bool:
    return all(read_state(operator.broker(broker).pid) not in ("T", None) for broker in (1, 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    "reader", ["never reads", *(pytest.param(name, marks=pytest.mark.long) for name in ("gone", "a full disk"))]
)
def test_a_worker_whose_words_nobody_reads_heals_every_broker(paused: Operator, reader: str) -> None:
    reading, writing = os.pipe()
    if reader == "gone":
        os.close(reading)
    elif reader == "never reads":
        fill(writing)
    else:
        os.dup2(os.open("/dev/full", os.O_WRONLY), writing)
    worker = start_worker(paused, writing)
    os.close(writing)
    try:
        wait_until(lambda: both_go_on(paused), "both brokers go on")
        worker.send_signal(signal.SIGTERM)
        wait_process(worker, "the end of the worker")
    finally:
        worker.kill()
        worker.wait(timeout=60)
        if reader != "gone":
            os.close(reading)


@pytest.mark.slow
def test_an_error_of_the_proxies_keeps_no_broker_paused(paused: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(ProxyFaults, "heal", fail)
    monkeypatch.setattr(ProxyFaults, "close", fail)
    monkeypatch.setattr(RequestRecord, "forget", fail)
    monkeypatch.setattr(FaultHost, "heal_left", lambda _: None)  # so that only the end heals
    monkeypatch.setattr(fault_worker, "_FaultWorker", lambda *_: SimpleNamespace(run=lambda: ExitCode.PASS))
    _, file = write_keys(paused.directory / "keys")
    code = fault_worker.run_fault_worker(
        "127.0.0.1", 1, read_key(file, "worker"), "here", permits_file(paused), paused.directory / "leases"
    )
    assert code is ExitCode.PASS
    wait_until(lambda: both_go_on(paused), "both brokers go on")


def test_each_step_that_undoes_something_is_done() -> None:
    done: list[str] = []

    def fail() -> None:
        done.append("fails")
        raise OSError(5, "Input/output error")

    problems = undo_all([fail, lambda: done.append("second"), fail])
    assert done == ["fails", "second", "fails"]
    assert [str(problem) for problem in problems] == ["[Errno 5] Input/output error"] * 2
