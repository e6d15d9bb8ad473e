"""The same claims against a real server of the S3 protocol (make test-store)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runlog.files.store import Store, StoreError, open_store
from runlog.files.stored import StoredList, fetch, put_checked, read_list
from tests.runlog import s3_server
from tests.runlog import store_claims as claims
from tests.runlog.s3_server import S3Server

pytestmark = [
    pytest.mark.slow, pytest.mark.store,
    pytest.mark.skipif(bool(s3_server.why_not()), reason=s3_server.why_not() or "it can run"),
]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    found = S3Server(tmp_path_factory.mktemp("s3"))
    yield found
    found.stop()


@pytest.fixture
def store(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Store:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return open_store(server.bucket())


def test_what_was_put_is_read_back(store: Store, tmp_path: Path) -> None:
    claims.check_what_was_put_is_read_back(store, tmp_path)


def test_an_empty_file_is_a_file(store: Store, tmp_path: Path) -> None:
    claims.check_an_empty_file_is_a_file(store, tmp_path)


def test_a_put_replaces_and_a_remove_removes(store: Store) -> None:
    claims.check_a_put_replaces_and_a_remove_removes(store)


def test_a_file_that_is_gone_before_it_is_put_is_not_an_error_of_the_store(store: Store, tmp_path: Path) -> None:
    claims.check_a_file_that_is_gone_before_it_is_put_is_not_an_error_of_the_store(store, tmp_path)


def test_a_file_larger_than_one_request_takes_is_put_in_parts_and_brought_back(store: Store, tmp_path: Path) -> None:
    source = tmp_path / "large"
    with source.open("wb") as out:
        for number in range(130):
            out.write(bytes([number]) * (1 << 20))
    found = put_checked(store, "run/large.parquet", source)
    fetch(store, "run/large.parquet", tmp_path / "back", found)
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    store.put_bytes("run/index.json", StoredList(is_whole=True, files={"large.parquet": found}).to_bytes())
    assert read_list(store, "run/index.json") == StoredList(is_whole=True, files={"large.parquet": found})


def test_a_store_sees_at_once_what_another_host_put(store: Store) -> None:
    other = open_store(store.url)
    assert other.names("run") == []
    store.put_bytes("run/a", b"1")
    assert other.names("run") == ["run/a"]
    store.put_bytes("run/a", b"22")
    assert other.read("run/a", 0, 10) == b"22"


def test_a_bucket_that_is_not_there_is_an_error_with_its_name(store: Store) -> None:
    absent = open_store("s3://no-such-bucket/x")
    with pytest.raises(StoreError, match="s3://no-such-bucket/x/a"):
        absent.put_bytes("a", b"1")
    with pytest.raises((StoreError, FileNotFoundError)):
        absent.read("a", 0, 1)


def test_wrong_credentials_are_told_without_a_word_of_them(
    server: S3Server, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = tmp_path / "credentials"
    wrong.write_text(
        f"[default]\naws_access_key_id = {server.access_key}\naws_secret_access_key = wrong{server.secret_key}\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(wrong))
    with pytest.raises(StoreError) as found:
        open_store(store.url).put_bytes("a", b"1")
    assert server.secret_key not in str(found.value)
    assert server.secret_key not in repr(found.value.__cause__)


def test_a_server_that_is_away_is_an_error_and_no_endless_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = S3Server(tmp_path / "s3")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    store = open_store(server.bucket())
    store.put_bytes("a", b"1")
    server.stop()
    with pytest.raises(StoreError):
        store.put_bytes("a", b"2")
    server.start_again()
    try:
        assert store.read("a", 0, 10) == b"1", "what was put stays, and the same store works again"
    finally:
        server.stop()
