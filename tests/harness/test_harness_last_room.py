"""The room that a run keeps on its disk is given to the documents that find the disk full, and to nothing else."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from harness.run.directory.reserved_space import ROOM_BYTES, give_room, is_room_gone, try_keep_room, write_last
from runlog.files.strangers import strange_entry


def test_room_is_really_kept_and_given_back(tmp_path: Path) -> None:
    assert try_keep_room(tmp_path)
    assert try_keep_room(tmp_path), "a second time is no error"
    (kept,) = tmp_path.iterdir()
    assert kept.stat().st_blocks * 512 >= ROOM_BYTES
    assert strange_entry(tmp_path) == "", "whoever reads the run does not mind it"
    give_room(tmp_path)
    give_room(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_with_space_has_room(tmp_path: Path) -> None:
    assert not is_room_gone(tmp_path)


class Disk:
    """Takes a document only when the room was given, if then."""

    def __init__(self, run_dir: Path, *errors: int) -> None:
        self._run_dir, self._errors = run_dir, list(errors)
        self.kept: list[bool] = []

    def write(self) -> None:
        self.kept.append(any(self._run_dir.iterdir()))
        if self._errors:
            raise OSError(self._errors.pop(0), "of the disk")


def test_a_document_that_finds_the_disk_full_gets_the_room(tmp_path: Path) -> None:
    try_keep_room(tmp_path)
    disk = Disk(tmp_path, errno.ENOSPC)
    write_last(tmp_path, disk.write)
    assert disk.kept == [True, False]


def test_other_errors_take_no_room_and_are_raised(tmp_path: Path) -> None:
    try_keep_room(tmp_path)
    disk = Disk(tmp_path, errno.EIO)
    with pytest.raises(OSError, match="of the disk"):
        write_last(tmp_path, disk.write)
    assert disk.kept == [True]
    assert any(tmp_path.iterdir())


def test_without_room_for_it_the_error_is_raised(tmp_path: Path) -> None:
    disk = Disk(tmp_path, errno.EDQUOT, errno.EDQUOT)
    with pytest.raises(OSError, match="of the disk"):
        write_last(tmp_path, disk.write)
    assert len(disk.kept) == 2
