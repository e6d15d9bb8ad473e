"""What every store must do, whatever it is made of. Each check takes a store that nobody else uses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runlog.files.store import PIECE_BYTES, Store, StoreError, pieces, read_all


def check_what_was_put_is_read_back(store: Store, directory: Path) -> None:
    content = os.urandom(PIECE_BYTES * 2 + 12_345)
    source = directory / "source"
    source.write_bytes(content)
    store.put_file("run-1/cells/c1/send-p0i0-000000.seg", source)
    store.put_bytes("run-1/index.json", b"{}")
    assert read_all(store, "run-1/cells/c1/send-p0i0-000000.seg", bytes_max=len(content)) == content
    assert (
        b"".join(pieces(store, "run-1/cells/c1/send-p0i0-000000.seg", offset=PIECE_BYTES + 7))
        == (content[PIECE_BYTES + 7 :])
    )
    assert store.read("run-1/cells/c1/send-p0i0-000000.seg", len(content), 10) == b"", "at the end"
    assert read_all(store, "run-1/index.json", bytes_max=2) == b"{}"
    with pytest.raises(StoreError, match="more than 1 bytes"):
        read_all(store, "run-1/index.json", bytes_max=1)


def check_an_empty_file_is_a_file(store: Store, directory: Path) -> None:
    (directory / "empty").write_bytes(b"")
    store.put_file("a/empty", directory / "empty")
    assert read_all(store, "a/empty", bytes_max=0) == b""
    assert store.names("a") == ["a/empty"]


def check_a_put_replaces_and_a_remove_removes(store: Store) -> None:
    store.put_bytes("a/b/one", b"first")
    store.put_bytes("a/b/one", b"second")
    store.put_bytes("a/c/two", b"2")
    store.put_bytes("ab/three", b"3")
    assert read_all(store, "a/b/one", bytes_max=100) == b"second"
    assert store.names("a") == ["a/b/one", "a/c/two"], "a prefix is a directory, not the beginning of a name"
    assert store.places("") == ["a", "ab"]
    assert store.places("a") == ["b", "c"]
    assert store.places("absent") == []
    store.remove("a/b/one")
    store.remove("a/b/one")
    assert store.names("a") == ["a/c/two"]
    assert store.names("") == ["a/c/two", "ab/three"]
    assert store.names("absent") == []
    with pytest.raises(FileNotFoundError):
        store.read("a/b/one", 0, 1)


def check_a_file_that_is_gone_before_it_is_put_is_not_an_error_of_the_store(store: Store, directory: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.put_file("a", directory / "gone")
    assert store.names("") == []
