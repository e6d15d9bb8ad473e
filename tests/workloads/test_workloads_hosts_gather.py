"""A load host's disk or ours fails while a run log is gathered: it ends with the reason, and nobody waits for more."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workloads.hosts import gather, wire
from workloads.hosts.gather import Gatherer
from workloads.hosts.spool import Spool

CELL = wire.OfCell(run_id="run-1", cell_id="c1")
NAME = "send-p0i0-000000.seg"


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    found = Spool(tmp_path / "spool")
    found.prepare(CELL)
    (found.live(CELL) / NAME).write_bytes(bytes(3 * wire.CHUNK_BYTES))
    return found


STALL_S = 60.0


class Clock:
    """Moves when somebody waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(gather, "time", SimpleNamespace(monotonic=lambda: self.now_s))

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def failing(number: int) -> Any:
    def fail(*_arguments: Any, **_more: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


def gathered(spool: Spool, target: Path, clock: Clock) -> Gatherer:
    """From one load host, whose answers are there at the next look."""
    asked: list[wire.Message] = []
    gatherer = Gatherer(CELL, target, asked.append)

    def answer() -> bool:
        questions, asked[:] = list(asked), []
        for question in questions:
            if isinstance(question, wire.AskFiles):
                gatherer.on_files(spool.files(CELL, is_running=False))
                continue
            assert isinstance(question, wire.AskChunk)
            told = spool.chunk(question)
            if isinstance(told, wire.Chunk):
                gatherer.on_chunk(told)
            else:
                gatherer.on_no_chunk(told)
        return False

    gather.gather_all(
        {"left": gatherer},
        stall_s=lambda _name: STALL_S,
        before_list=lambda _name: None,
        is_stopped=answer,
        sleep=clock.sleep,
    )
    return gatherer


def test_a_host_that_can_read_gives_everything(spool: Spool, tmp_path: Path, clock: Clock) -> None:
    assert gathered(spool, tmp_path / "here", clock).is_whole()


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_a_file_that_cannot_be_read_there_ends_it_with_the_reason(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, number: int
) -> None:
    monkeypatch.setattr("workloads.hosts.spool.os.pread", failing(number))
    found = gathered(spool, tmp_path / "here", clock)
    assert found.problem == f"{NAME} cannot be read there: {os.strerror(number)}"
    assert clock.now_s < gather.LIST_S, "at once"


def test_an_error_that_may_pass_is_asked_again_and_not_for_an_hour(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """The list of files comes every other second all the time, and is no progress."""
    monkeypatch.setattr("workloads.hosts.spool.os.pread", failing(errno.EMFILE))
    assert not gathered(spool, tmp_path / "here", clock).is_whole()
    assert clock.now_s < STALL_S + 2 * gather.LIST_S


def test_an_error_that_passed_costs_nothing(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    real, left = os.pread, [2]

    def passes(descriptor: int, size: int, offset: int) -> bytes:
        left[0] -= 1
        if left[0] >= 0:
            raise OSError(errno.EMFILE, "too many")
        return real(descriptor, size, offset)

    monkeypatch.setattr("workloads.hosts.spool.os.pread", passes)
    assert gathered(spool, tmp_path / "here", clock).is_whole()


@pytest.mark.parametrize("where", ["mkdir", "open", "rename"])
def test_a_full_disk_here_ends_it_with_the_reason(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, where: str
) -> None:
    real = getattr(Path, where)

    def full(path: Path, *arguments: Any, **more: Any) -> Any:
        if tmp_path / "here" in (path, path.parent) and (where != "open" or arguments[:1] == ("ab",)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, *arguments, **more)

    monkeypatch.setattr(Path, where, full)
    found = gathered(spool, tmp_path / "here", clock)
    assert found.problem == "it cannot be kept here: No space left on device"
    assert not found.is_whole()
    assert clock.now_s < gather.LIST_S, "at once"


def test_a_worker_with_another_spool_ends_it(spool: Spool, tmp_path: Path) -> None:
    asked: list[wire.Message] = []
    gatherer = Gatherer(CELL, tmp_path / "here", asked.append)
    gatherer.on_files(spool.files(CELL, is_running=False))
    gatherer.on_files(Spool(tmp_path / "another").files(CELL, is_running=False))
    assert not gatherer.is_whole()
    assert gatherer.problem == f"{NAME} is no longer in its spool, which had it before"
