"""Files on their way from a store: whole, resumed, verified; and lists that somebody else wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from runlog.files import stored
from runlog.files.store import PIECE_BYTES, DirectoryStore, StoreError, open_store
from runlog.files.stored import StoredFile, StoredList, fetch, measured, put_checked, read_list

CONTENT = os.urandom(PIECE_BYTES + 1000)


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    (tmp_path / "shared").mkdir()
    found = open_store((tmp_path / "shared").as_uri())
    assert isinstance(found, DirectoryStore)
    return found


@pytest.fixture
def put(store: DirectoryStore, tmp_path: Path) -> StoredFile:
    (tmp_path / "source").write_bytes(CONTENT)
    return put_checked(store, "run/x.seg", tmp_path / "source")


def test_what_was_put_is_brought_whole_and_not_brought_twice(
    store: DirectoryStore, put: StoredFile, tmp_path: Path
) -> None:
    target = tmp_path / "here" / "x.seg"
    assert fetch(store, "run/x.seg", target, put) == len(CONTENT)
    assert target.read_bytes() == CONTENT
    assert fetch(store, "run/x.seg", target, put) == 0
    assert [path.name for path in target.parent.iterdir()] == ["x.seg"]


def test_what_broke_off_is_resumed(store: DirectoryStore, put: StoredFile, tmp_path: Path) -> None:
    target = tmp_path / "x.seg"
    target.with_name("x.seg.part").write_bytes(CONTENT[: PIECE_BYTES // 2])
    assert fetch(store, "run/x.seg", target, put) == len(CONTENT) - PIECE_BYTES // 2
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("begun", [b"of another file", b"x" * (len(CONTENT) + 5)], ids=["other", "too long"])
def test_what_was_begun_of_another_file_is_begun_anew(
    store: DirectoryStore, put: StoredFile, tmp_path: Path, begun: bytes
) -> None:
    target = tmp_path / "x.seg"
    target.with_name("x.seg.part").write_bytes(begun)
    fetch(store, "run/x.seg", target, put)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: data + b"!", lambda data: b"\0" + data[1:] if data[0] else b"\1" + data[1:]],
    ids=["cut", "longer", "changed"],
)
def test_a_damaged_file_is_refused_and_not_there(
    store: DirectoryStore, put: StoredFile, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "shared" / "run" / "x.seg"
    path.write_bytes(damage(CONTENT))
    with pytest.raises(StoreError, match="checksum is wrong"):
        fetch(store, "run/x.seg", tmp_path / "here" / "x.seg", put)
    assert list((tmp_path / "here").iterdir()) == []


def test_a_file_that_is_still_written_is_not_put_with_a_checksum_of_nothing(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"first")
    put_file = store.put_file

    def put_and_write(name: str, path: Path) -> None:
        put_file(name, path)
        source.write_bytes(b"first and second")

    monkeypatch.setattr(store, "put_file", put_and_write)
    with pytest.raises(StoreError, match="was written while"):
        put_checked(store, "run/x.seg", source)


def test_a_list_comes_back_as_it_was(store: DirectoryStore, put: StoredFile) -> None:
    for is_whole in (False, True):
        written = StoredList(is_whole=is_whole, files={"a/x.seg": put, "b": StoredFile(bytes=0, sha256="0" * 64)})
        store.put_bytes("run/index.json", written.to_bytes())
        assert read_list(store, "run/index.json") == written
    assert read_list(store, "run/absent.json") is None


@pytest.mark.parametrize(
    "files",
    [
        {"../../etc/cron.d/x": {"bytes": 1, "sha256": "0" * 64}},
        {"/etc/x": {"bytes": 1, "sha256": "0" * 64}},
        {"x": {"bytes": -1, "sha256": "0" * 64}},
        {"x": {"bytes": 2**60, "sha256": "0" * 64}},
        {"x": {"bytes": 1, "sha256": "0"}},
        {"x": {"bytes": 1}},
        {"x": "y"},
        ["x"],
        None,
    ],
)
def test_a_list_that_names_other_places_or_no_sizes_is_refused(store: DirectoryStore, files: object) -> None:
    store.put_bytes("run/index.json", json.dumps({"is_whole": True, "files": files}).encode())
    with pytest.raises(StoreError):
        read_list(store, "run/index.json")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"[" * 100_000, b"\xff"])
def test_what_is_no_document_is_refused(store: DirectoryStore, text: bytes) -> None:
    store.put_bytes("run/index.json", text)
    with pytest.raises(StoreError):
        read_list(store, "run/index.json")


def test_a_list_of_too_many_files_is_refused(store: DirectoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "FILES_MAX", 2)
    files = {str(number): StoredFile(bytes=0, sha256="0" * 64) for number in range(3)}
    store.put_bytes("run/index.json", StoredList(is_whole=True, files=files).to_bytes())
    with pytest.raises(StoreError, match="at most 2 files"):
        read_list(store, "run/index.json")


def test_a_measure_is_size_and_checksum(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    assert measured(tmp_path / "x") == StoredFile(
        bytes=3, sha256="ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
