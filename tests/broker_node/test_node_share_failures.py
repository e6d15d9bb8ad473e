"""Share groups while brokers fail: a restart keeps what was acknowledged, and a leader's death loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_helper import Cluster
from share_helper import IDLE_MS, SETTINGS, members, prepare, send

from tests.patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.long]


def test_a_restart_of_the_broker_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=1, settings=SETTINGS) as cluster:
        prepare(cluster.bootstrap(), "t", "g")
        send(cluster.bootstrap(), "t", range(100))
        with members(tmp_path, cluster.bootstrap()) as started:
            strict = ("max.poll.records=30", "share.acquire.mode=record_limit")
            first = started.start("g", "t", "accept", 30, IDLE_MS, *strict).wait()
            cluster.terminate(1)
            cluster.start(1)
            cluster.wait_until_all_are_known()
            second = started.start("g", "t", "accept", 100 - len(first), IDLE_MS).wait()
    assert 30 <= len(first) < 100
    assert sorted(int(each.value) for each in first + second) == list(range(100)), "each of them once"


def test_nothing_is_lost_when_leaders_are_killed(tmp_path: Path) -> None:
    settings = {**SETTINGS, "min.insync.replicas": 2}
    with Cluster(tmp_path, settings=settings) as cluster:
        prepare(cluster.bootstrap(), "t", "g", partitions=6)
        with members(tmp_path, cluster.bootstrap()) as started:
            readers = [started.start("g", "t", "accept", 100_000, 600_000) for _ in range(3)]

            def seen() -> set[int]:
                return {int(each.value) for reader in readers for each in reader.deliveries()}

            send(cluster.bootstrap(), "t", range(2_000), partitions=6)
            wait_until(lambda: len(seen()) >= 200, "the members read")
            victim = 2
            cluster.kill(victim)
            send(cluster.bootstrap(), "t", range(2_000, 4_000), partitions=6)
            wait_until(lambda: len(seen()) == 4_000, "all values while a broker is down")
            cluster.start(victim)
            send(cluster.bootstrap(), "t", range(4_000, 5_000), partitions=6)
            wait_until(lambda: len(seen()) == 5_000, "all values after the restart")
            deliveries = [each for reader in readers for each in reader.deliveries()]
    again = len(deliveries) - 5_000
    assert again < 2_500, f"{again} records came more than once; only those of dead leaders may"
