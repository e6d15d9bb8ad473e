"""A shared directory as a store, and what no store takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from runlog.files import store as stores
from runlog.files.store import Store, StoreError, open_store
from tests.runlog import store_claims as claims


@pytest.fixture
def root(tmp_path: Path) -> Path:
    found = tmp_path / "shared place"
    found.mkdir()
    return found


@pytest.fixture
def store(root: Path) -> Store:
    return open_store(root.as_uri())


def test_what_was_put_is_read_back(store: Store, tmp_path: Path) -> None:
    claims.check_what_was_put_is_read_back(store, tmp_path)


def test_an_empty_file_is_a_file(store: Store, tmp_path: Path) -> None:
    claims.check_an_empty_file_is_a_file(store, tmp_path)


def test_a_put_replaces_and_a_remove_removes(store: Store, root: Path) -> None:
    claims.check_a_put_replaces_and_a_remove_removes(store)
    assert {path.name for path in root.iterdir()} == {"a", "ab"}
    assert [path.name for path in (root / "a").iterdir()] == ["c"], "empty directories go"


def test_a_file_that_is_gone_before_it_is_put_is_not_an_error_of_the_store(store: Store, tmp_path: Path) -> None:
    claims.check_a_file_that_is_gone_before_it_is_put_is_not_an_error_of_the_store(store, tmp_path)


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "a//b", "../a", "a/../b", "a/./b", "a\0b", "a b", "ä", "a/" * 20 + "a", "a" * 300]
)
def test_a_name_that_could_lead_elsewhere_is_refused(store: Store, name: str) -> None:
    with pytest.raises(StoreError, match="is no name"):
        store.put_bytes(name, b"x")
    with pytest.raises(StoreError, match="is no name"):
        store.read(name, 0, 1)
    with pytest.raises(StoreError, match="is no name"):
        store.remove(name)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("s3://key:secret@bucket/runs", "no credentials"),
        ("file://user:pw@host/runs", "no credentials"),
        ("s3://bucket/runs?secret=x", "no options"),
        ("file://elsewhere/runs", "expected file:///directory"),
        ("file:runs", "expected file:///directory"),
        ("file:///proc/no-such-share", "no such directory"),
        ("s3://Bad_Bucket/x", "expected s3://bucket/prefix"),
        ("s3:///x", "expected s3://bucket/prefix"),
        ("s3://bucket/../x", "is no name"),
        ("http://bucket/x", "expected file:///directory or s3"),
        ("/mnt/runs", "expected file:///directory or s3"),
    ],
)
def test_a_url_that_is_no_store_is_refused_with_a_reason(url: str, why: str) -> None:
    with pytest.raises(StoreError, match=why) as found:
        open_store(url)
    assert "secret@" not in str(found.value)
    assert "pw@" not in str(found.value)


def test_what_is_half_put_and_what_leads_elsewhere_is_not_seen(store: Store, root: Path, tmp_path: Path) -> None:
    store.put_bytes("a/whole", b"1")
    (root / "a" / ".other.123.part").write_bytes(b"half")
    (tmp_path / "secret").write_bytes(b"of the user")
    (root / "a" / "link").symlink_to(tmp_path / "secret")
    assert store.names("") == ["a/whole"]
    with pytest.raises(StoreError):
        store.read("a/link", 0, 100)


def test_a_put_that_fails_leaves_the_old_file_and_nothing_beside_it(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_bytes("a", b"old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stores.os, "fsync", full)
    with pytest.raises(StoreError, match="No space left"):
        store.put_bytes("a", b"new")
    monkeypatch.undo()
    assert store.read("a", 0, 10) == b"old"
    assert [path.name for path in root.iterdir()] == ["a"]


def test_a_directory_with_too_many_files_is_an_error_and_no_endless_list(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "NAMES_MAX", 2)
    for name in ("a", "b", "c"):
        store.put_bytes(name, b"")
    with pytest.raises(StoreError, match="more than 2 files"):
        store.names("")
