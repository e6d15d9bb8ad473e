"""Where Parquet lies: a part gives the same bytes from a directory and piece by piece. What is no file gives none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runlog.files.store import DirectoryStore, open_store
from runlog.files.stored import StoredFile, StoredList, kept_name
from runlog.streams.place import InBucket, InDirectory

PART = "send/cell=c/part-000000.parquet"
DATA = bytes(range(256)) * 50


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    found = open_store(tmp_path.as_uri())
    assert isinstance(found, DirectoryStore)
    found.put_bytes(f"run/{PART}", DATA)
    found.put_bytes("run/send/cell=c/part-000001.parquet", b"not on the list")
    listed = {
        PART: StoredFile(bytes=len(DATA), sha256="0" * 64),
        "cells/c/stats.jsonl": StoredFile(bytes=1, sha256="0" * 64),
    }
    found.put_bytes(kept_name("run", "c"), StoredList(is_whole=True, files=listed).to_bytes())
    return found


def test_a_bucket_shows_what_the_list_of_the_cell_names(store: DirectoryStore) -> None:
    place = InBucket(store, "run")  # type: ignore[arg-type]  # whatever keeps the bytes
    assert place.names("send/cell=c") == ["part-000000.parquet"]
    assert place.names("recv/cell=c") == []
    assert place.names("send/cell=other") == []
    with pytest.raises(FileNotFoundError):
        place.open("send/cell=c/part-000001.parquet")


def test_a_part_is_read_piece_by_piece_and_from_any_place(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runlog.streams.place.BUFFER_BYTES", 1_000)
    file, size = InBucket(store, "run").open(PART)  # type: ignore[arg-type]
    with file:
        assert size == len(DATA)
        assert file.read() == DATA
        file.seek(-10, os.SEEK_END)
        assert (file.tell(), file.read()) == (len(DATA) - 10, DATA[-10:])
        file.seek(5)
        file.seek(5, os.SEEK_CUR)
        assert file.read(3) == DATA[10:13]


def test_a_directory_gives_plain_files_only(tmp_path: Path) -> None:
    place = InDirectory(tmp_path)
    directory = tmp_path / "send" / "cell=c"
    directory.mkdir(parents=True)
    (directory / "part-000000.parquet").write_bytes(DATA)
    (directory / "link.parquet").symlink_to(directory / "part-000000.parquet")
    assert place.names("send/cell=c") == ["link.parquet", "part-000000.parquet"]
    file, size = place.open(PART)
    with file:
        assert (size, file.read()) == (len(DATA), DATA)
    with pytest.raises(OSError, match="no regular file"):
        place.open("send/cell=c/link.parquet")
    with pytest.raises(FileNotFoundError):
        place.open("send/cell=c/none.parquet")
    assert place.uri(PART) == f"file://{directory / 'part-000000.parquet'}"
