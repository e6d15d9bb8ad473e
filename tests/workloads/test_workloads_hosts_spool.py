"""Run logs at a load host and on their way: nothing else is read, and nothing arrives damaged or twice."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from workloads.hosts import gather, wire
from workloads.hosts.gather import Gatherer
from workloads.hosts.spool import Spool

CELL = wire.OfCell(run_id="run-1", cell_id="c1")


@pytest.fixture
def live(tmp_path: Path) -> Path:
    spool = Spool(tmp_path / "spool")
    directory = spool.prepare(CELL) / "cells" / "c1" / "live"
    for name, size in (("send-p0i0-000000.seg", 2_500_000), ("send-p0i0-000001.seg", 10), ("recv-c0-000000.seg", 0)):
        (directory / name).write_bytes(bytes(number % 251 for number in range(size)))
    (directory / "producer-0-0.inflight").write_bytes(b"ring")
    (directory / "producer-0.claim").write_bytes(b"")
    (directory / "secret.key").write_bytes(b"x")
    return directory


def test_segments_and_rings_are_listed_and_nothing_else(tmp_path: Path, live: Path) -> None:
    spool = Spool(tmp_path / "spool")
    names = [listed.name for listed in spool.files(CELL, is_running=False).files]
    assert names == ["producer-0-0.inflight", "recv-c0-000000.seg", "send-p0i0-000000.seg", "send-p0i0-000001.seg"]
    closed = [listed.name for listed in spool.files(CELL, is_running=True).files if listed.is_closed]
    assert closed == ["send-p0i0-000000.seg"], "while the share runs, only what has a successor"


def test_a_file_that_is_not_there_is_told(tmp_path: Path, live: Path) -> None:
    ask = wire.AskChunk(run_id="run-1", cell_id="c1", name="send-p9i0-000000.seg", offset=0)
    told = Spool(tmp_path / "spool").chunk(ask)
    assert isinstance(told, wire.NoChunk)
    assert (told.name, told.reason, told.is_permanent) == (ask.name, "No such file or directory", True)


def test_a_spool_that_cannot_be_read_is_told_and_is_not_empty(tmp_path: Path, live: Path) -> None:
    for path in live.iterdir():
        path.unlink()
    live.rmdir()
    live.write_text("")  # no directory: as root, permissions keep nobody out
    told = Spool(tmp_path / "spool").files(CELL, is_running=False)
    assert told.problem == "its spool cannot be read: Not a directory"


class LossyLink:
    """Answers questions from a spool; loses, doubles or damages some."""

    def __init__(self, spool: Spool, target: Path, *, damage: int = 0, lose_every: int = 0) -> None:
        self._spool, self._damage, self._lose_every = spool, damage, lose_every
        self._asked: list[wire.Message] = []
        self._count = 0
        self.gatherer = Gatherer(CELL, target, self._asked.append)

    def run(self) -> None:
        self.gatherer.list_anew()
        for _ in range(1_000):
            if not self._asked:
                self.gatherer._asked_s = 0.0  # as if its patience were over
                self.gatherer.step()
                if not self._asked:
                    return
            asked = self._asked.pop(0)
            self._count += 1
            if isinstance(asked, wire.AskFiles):
                self.gatherer.on_files(self._spool.files(CELL, is_running=False))
                continue
            if self._lose_every and self._count % self._lose_every == 0:
                continue
            assert isinstance(asked, wire.AskChunk)
            chunk = self._spool.chunk(asked)
            assert isinstance(chunk, wire.Chunk)
            if self._damage and chunk.data:
                self._damage -= 1
                chunk = chunk.model_copy(update={"data": b"\0" + chunk.data[1:] if chunk.data[0] else b"\1"})
            self.gatherer.on_chunk(chunk)
            self.gatherer.on_chunk(chunk)  # twice


@pytest.mark.parametrize("lose_every", [0, 2, 3])
def test_everything_arrives_once_over_a_link_that_loses_and_doubles(
    tmp_path: Path, live: Path, lose_every: int
) -> None:
    link = LossyLink(Spool(tmp_path / "spool"), tmp_path / "here", lose_every=lose_every)
    link.run()
    assert link.gatherer.is_whole()
    assert link.gatherer.files == 4
    for path in (tmp_path / "here").iterdir():
        assert path.read_bytes() == (live / path.name).read_bytes()


def test_a_damaged_file_is_brought_again(tmp_path: Path, live: Path) -> None:
    link = LossyLink(Spool(tmp_path / "spool"), tmp_path / "here", damage=2)
    link.run()
    assert link.gatherer.is_whole()
    assert (tmp_path / "here" / "producer-0-0.inflight").read_bytes() == b"ring"


def test_a_link_that_damages_everything_is_told_and_not_tried_for_ever(tmp_path: Path, live: Path) -> None:
    link = LossyLink(Spool(tmp_path / "spool"), tmp_path / "here", damage=10_000)
    link.run()
    assert not link.gatherer.is_whole()
    assert "wrong checksum" in link.gatherer.problem


def test_what_was_begun_is_resumed(tmp_path: Path, live: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    name = "send-p0i0-000000.seg"
    (here / f"{name}.part").write_bytes((live / name).read_bytes()[: wire.CHUNK_BYTES])
    link = LossyLink(Spool(tmp_path / "spool"), here)
    link.run()
    assert (here / name).read_bytes() == (live / name).read_bytes()
    assert link.gatherer.bytes == sum(path.stat().st_size for path in here.iterdir()) - wire.CHUNK_BYTES


def test_a_piece_that_was_lost_is_asked_for_again_although_the_list_is_asked_for_more_often(
    tmp_path: Path, live: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that breaks for a moment loses what is under way."""
    now_s = 0.0
    monkeypatch.setattr(gather, "time", SimpleNamespace(monotonic=lambda: now_s))
    spool = Spool(tmp_path / "spool")
    asked: list[wire.Message] = []
    gatherer = Gatherer(CELL, tmp_path / "here", asked.append)
    gatherer.list_anew()
    gatherer.on_files(spool.files(CELL, is_running=False))
    (lost,) = [each for each in asked if isinstance(each, wire.AskChunk)]
    asked.clear()
    for _ in range(5):
        now_s += gather.ASK_AGAIN_S * 2 / 3
        gatherer.list_anew()
        gatherer.on_files(spool.files(CELL, is_running=False))
        gatherer.step()
    assert lost in asked


def test_what_an_earlier_gatherer_brought_is_verified_and_not_brought_again(tmp_path: Path, live: Path) -> None:
    here, name = tmp_path / "here", "send-p0i0-000000.seg"
    here.mkdir()
    (here / name).write_bytes((live / name).read_bytes())
    (here / "send-p0i0-000001.seg").write_bytes(b"not what the host has")
    link = LossyLink(Spool(tmp_path / "spool"), here)
    link.run()
    assert link.gatherer.is_whole()
    assert link.gatherer.files == 4
    for path in here.iterdir():
        assert path.read_bytes() == (live / path.name).read_bytes()
    assert link.gatherer.bytes < wire.CHUNK_BYTES


def test_what_was_verified_can_be_forgotten(tmp_path: Path, live: Path) -> None:
    Spool(tmp_path / "spool").forget(CELL)
    assert list((tmp_path / "spool").iterdir()) == []
