"""The leader-epoch cache: Kafka's rules for finding where two logs part."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.epochs import LeaderEpochCache
from broker.log.errors import LogCorruptError
from broker.log.filesystem import LOCAL


@pytest.fixture
def cache(tmp_path: Path) -> LeaderEpochCache:
    found = LeaderEpochCache(LOCAL, str(tmp_path / "leader-epoch-checkpoint"))
    for epoch, start_offset in ((2, 10), (4, 20), (7, 35)):
        found.assign(epoch, start_offset)
    return found


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (0, (0, 10)),
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (4, 35)),
        (6, (4, 35)),
        (7, (7, 50)),
        (8, (-1, -1)),
        (-1, (-1, -1)),
    ],
)
def test_end_offset_of_an_epoch(cache: LeaderEpochCache, epoch: int, expected: tuple[int, int]) -> None:
    assert cache.end_offset_for(epoch, 50) == expected


def test_empty_cache_knows_nothing(tmp_path: Path) -> None:
    empty = LeaderEpochCache(LOCAL, str(tmp_path / "file"))
    assert empty.end_offset_for(0, 9) == (-1, -1)
    assert (empty.latest_epoch, empty.epoch_at(5)) == (-1, -1)


@pytest.mark.parametrize(("offset", "epoch"), [(0, -1), (9, -1), (10, 2), (19, 2), (20, 4), (999, 7)])
def test_epoch_at_an_offset(cache: LeaderEpochCache, offset: int, epoch: int) -> None:
    assert cache.epoch_at(offset) == epoch


def test_file_is_kafkas_and_is_read_back(cache: LeaderEpochCache, tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    assert path.read_text() == "0\n3\n2 10\n4 20\n7 35\n"
    assert LeaderEpochCache(LOCAL, str(path)).entries == cache.entries


@pytest.mark.parametrize(("offset", "left"), [(36, 3), (35, 2), (21, 2), (20, 1), (10, 0), (0, 0)])
def test_truncation_forgets_epochs_that_begin_beyond(
    cache: LeaderEpochCache, offset: int, left: int, tmp_path: Path
) -> None:
    cache.truncate_to(offset)
    assert len(cache.entries) == left
    assert LeaderEpochCache(LOCAL, str(tmp_path / "leader-epoch-checkpoint")).entries == cache.entries


def test_epoch_without_records_is_displaced(cache: LeaderEpochCache) -> None:
    cache.assign(9, 35)
    assert [tuple(entry) for entry in cache.entries] == [(2, 10), (4, 20), (9, 35)]


def test_torn_file_is_ignored_and_a_lying_one_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("0\n3\n2 10\n")
    assert LeaderEpochCache(LOCAL, str(path)).entries == ()
    path.write_text("0\n1\ntwo ten\n")
    with pytest.raises(LogCorruptError, match="two ten"):
        LeaderEpochCache(LOCAL, str(path))


def test_file_that_a_loss_of_power_tore_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    cache = LeaderEpochCache(LOCAL, str(path))
    for epoch, offset in ((0, 0), (3, 120), (12, 4567)):
        cache.assign(epoch, offset)
    whole = path.read_bytes()
    for size in range(len(whole)):
        for torn in (whole[:size], whole[:size] + bytes(len(whole) - size)):
            path.write_bytes(torn)
            assert LeaderEpochCache(LOCAL, str(path)).entries == ()
    path.write_bytes(whole)
    assert LeaderEpochCache(LOCAL, str(path)).entries == cache.entries


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 100)), max_size=20), st.integers(0, 100))
def test_entries_always_rise(changes: list[tuple[int, int]], cut: int) -> None:
    class Memory:
        """Only what the cache calls; it is its own file."""

        def exists(self, path: str) -> bool:
            return False

        def open(self, path: str) -> Memory:
            return self

        def write_at(self, position: int, data: bytes) -> None:
            self.data = data

        def truncate(self, size: int) -> None:
            assert size == len(self.data)

        def close(self) -> None:
            return

        def rename(self, source: str, target: str) -> None:
            assert (source, target) == ("file.tmp", "file")

    cache = LeaderEpochCache(Memory(), "file")  # type: ignore[arg-type]
    for epoch, offset in changes:
        cache.assign(epoch, offset)
        cache.check_invariants()
    cache.truncate_to(cut)
    assert all(entry.start_offset < cut for entry in cache.entries)
