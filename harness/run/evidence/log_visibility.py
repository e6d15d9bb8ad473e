"""Waits until all records of the leaders can be read. A high watermark that is behind hides records from the final
read.

With acks=1 a record is acknowledged before a follower has it. A follower that fetches nothing still counts as in sync
for `replica.lag.time.max.ms`. So a cluster whose fault was just healed looks healthy while its high watermark is still
where the fault began. A final read at that moment would count all records after it as lost.

A commit is answered before its markers are written. Until then its records look as if their transaction was open.
Shown by tests/harness/test_harness_log_visibility.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Final

from harness.clusters.cluster import Cluster
from harness.clusters.requests.probe import BrokerProbe

_LOOK_S: Final = 0.05
_Lag = Callable[[BrokerProbe, str, int, int], str]  # of topic, partition and leader epoch; empty: nothing is behind


def await_high_watermarks(
    cluster: Cluster, topics: Iterable[str], *, timeout_s: float, should_stop: Callable[[], bool]
) -> list[str]:
    """What is still behind after `timeout_s`, one line for each partition. [] if every leader shows all that it has.

    If a broker does not tell where its log ends (OffsetForLeaderEpoch, before Kafka 2.0), its word is taken.
    """
    return _await(cluster, topics, _lag, timeout_s, should_stop)


def await_markers(
    cluster: Cluster, topics: Iterable[str], *, timeout_s: float, should_stop: Callable[[], bool]
) -> list[str]:
    """The same for transactions that are still open. [] if each has its marker in every partition."""
    return _await(cluster, topics, _open, timeout_s, should_stop)


def _await(
    cluster: Cluster, topics: Iterable[str], lag: _Lag, timeout_s: float, should_stop: Callable[[], bool]
) -> list[str]:
    deadline_s = time.monotonic() + timeout_s
    problems: list[str] = []
    for topic in topics:
        while True:
            behind = list(_behind(cluster, topic, lag))
            if not behind or should_stop():
                break
            if time.monotonic() >= deadline_s:
                problems += behind
                break
            time.sleep(_LOOK_S)
    return problems


def _behind(cluster: Cluster, topic: str, lag: _Lag) -> Iterator[str]:
    state = cluster.state(topic)
    if state is None:
        yield f"{topic}: no broker answers"
        return
    with ExitStack() as opened:
        probes: dict[int, BrokerProbe] = {}
        for number, partition in sorted(state.partitions.items()):
            if partition.leader not in probes:
                probe = cluster.probe_of_leader(topic, number)
                if probe is None:
                    yield f"{topic}-{number}: no leader"
                    continue
                probes[partition.leader] = probe
                opened.callback(probe.close)
            if problem := lag(probes[partition.leader], topic, number, partition.leader_epoch):
                yield problem


def _lag(probe: BrokerProbe, topic: str, partition: int, leader_epoch: int) -> str:
    """In this order, because there are no more writes, and the log's end can only grow while it is asked for."""
    told = probe.epoch_end_offset(topic, partition, leader_epoch)
    if told is None or told[1] < 0:
        return ""
    high_watermark = probe.end_offset(topic, partition)
    if high_watermark is not None and high_watermark >= told[1]:
        return ""
    return f"{topic}-{partition}: the high watermark stands at {high_watermark}, the leader's log ends at {told[1]}"


def _open(probe: BrokerProbe, topic: str, partition: int, leader_epoch: int) -> str:
    stable, end = probe.stable_offset(topic, partition), probe.end_offset(topic, partition)
    if stable is None or end is None:
        return f"{topic}-{partition}: the leader does not tell where it ends"
    return "" if stable >= end else f"{topic}-{partition}: open from offset {stable}, the end offset is {end}"
