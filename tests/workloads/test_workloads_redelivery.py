"""Redelivered records are removed by a bounded table and by a real Redis; the counts before and after are right."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.clusters.ports import free_port
from tests.patience import wait_until
from workloads.clients.protocol import ClientError
from workloads.redelivery import RedeliveryFilter, RedisStore, TableStore


def ids(*sequences: int) -> list[tuple[int, int, int]]:
    return [(1, 0, seq) for seq in sequences]


def test_a_table_removes_what_it_remembers_and_counts_what_it_forgot() -> None:
    redelivery = RedeliveryFilter(TableStore(entries_max=3))
    assert redelivery.keep(ids(0, 1, 1, 2)) == [True, True, False, True]
    assert redelivery.keep(ids(0, 3, 1)) == [False, True, True]  # 1 was the oldest when 3 came
    assert redelivery.report() == {
        "records": 7,
        "handed_on": 5,
        "duplicates_before": 3,
        "duplicates_after": 1,
        "wrongly_removed": 0,
        "not_judged": 0,
    }


def test_two_incarnations_of_a_producer_are_not_the_same_record() -> None:
    assert TableStore(9).claim([(1, 0, 5), (1, 1, 5), (2, 0, 5)]) == [True, True, True]


def test_what_the_count_cannot_remember_is_not_judged() -> None:
    redelivery = RedeliveryFilter(TableStore(9), reference_max=2)
    redelivery.keep(ids(0, 1, 2, 2, 0))
    report = redelivery.report()
    assert (report["not_judged"], report["duplicates_before"]) == (2, 1)


def test_a_record_is_handed_on_once_by_all_threads_together() -> None:
    redelivery = RedeliveryFilter(TableStore(10_000))

    def work() -> None:
        for begin in range(0, 2000, 100):
            redelivery.keep(ids(*range(begin, begin + 100)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    report = redelivery.report()
    assert (report["handed_on"], report["duplicates_before"], report["duplicates_after"]) == (2000, 6000, 0)


class LyingStore(TableStore):
    """Removes everything: what a wrong store, or another process, has claimed before."""

    def claim(self, identities: list[tuple[int, int, int]]) -> list[bool]:  # type: ignore[override]
        return [False] * len(identities)


def test_a_record_that_nobody_got_is_told_unless_another_process_may_have_it() -> None:
    alone, shared = RedeliveryFilter(LyingStore(9)), RedeliveryFilter(LyingStore(9), is_alone=False)
    alone.keep(ids(0, 1))
    shared.keep(ids(0, 1))
    assert (alone.report()["wrongly_removed"], alone.report()["duplicates_before"]) == (2, 0)
    assert (shared.report()["wrongly_removed"], shared.report()["duplicates_before"]) == (0, 2)


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of our own, on loopback, that keeps nothing on disk."""
    pytest.importorskip("redis")
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server: apt-get install redis-server")
    port = free_port()
    directory: Path = tmp_path_factory.mktemp("redis")
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    process = subprocess.Popen([*command, "--dir", str(directory)], stdout=subprocess.DEVNULL)

    def answers() -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(answers, "redis-server", 20)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.kill()
        process.wait(10)


@pytest.mark.redis
def test_redis_removes_for_all_processes_and_forgets_after_its_time(redis_url: str) -> None:
    name = uuid.uuid4().hex
    one, two = RedisStore(redis_url, name, keep_ms=60_000), RedisStore(redis_url, name, keep_ms=60_000)
    assert one.claim(ids(0, 1, 1)) == [True, True, False]
    assert two.claim(ids(1, 2)) == [False, True]
    assert RedisStore(redis_url, "another reader", keep_ms=60_000).claim(ids(1)) == [True]
    brief = RedisStore(redis_url, f"{name}-brief", keep_ms=1)
    assert brief.claim(ids(7)) == [True]
    wait_until(lambda: brief.claim(ids(7)) == [True], "the key expired", 20)


@pytest.mark.redis
def test_a_redis_that_is_away_is_an_error_and_no_guess(redis_url: str) -> None:
    port = free_port()
    with pytest.raises(ClientError, match=rf"Redis at redis://127\.0\.0\.1:{port}/0"):
        RedisStore(f"redis://127.0.0.1:{port}/0", "x", keep_ms=1000).claim(ids(1))
