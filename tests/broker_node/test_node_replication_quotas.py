"""Replication throttles (KIP-73): what counts, when the rate is used up, and who has to wait."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from partitions_helper import ME, PEER, image, node_config, replicas_at, the, topic

from broker.controller.image import MetadataImage
from broker.node.handlers.fetch_reads import PartitionReads
from broker.node.net.dialling import plain_dialler
from broker.node.process.logs import Logger
from broker.node.replicas.fetch_sessions import AskedPartition, Reader
from broker.node.replicas.fetcher import _Fetcher
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.replication_quotas import ReplicationQuota, ReplicationQuotas
from broker.node.settings.sections.replication import ReplicationSettings
from broker.node.settings.topic_config import parse_topic_config, topic_defaults
from broker.node.settings.values import LONG_MAX
from broker.wire.errors import ErrorCode
from broker.wire.records import encode_batch

LEADER_LIST, FOLLOWER_LIST = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
BATCH = encode_batch([b"v" * 1_000], timestamps_ms=1)


def quota(rate: int) -> ReplicationQuota:
    made = ReplicationQuota(window_count=11, window_size_ms=1_000)
    made.set_rate(rate)
    return made


def used_up_by_anything() -> ReplicationQuota:
    """For an hour, so that no pause of a busy host gives it room again."""
    made = ReplicationQuota(window_count=11, window_size_ms=3_600_000)
    made.set_rate(0)
    return made


def test_a_first_burst_counts_for_one_second_and_no_longer_as_time_goes_on() -> None:
    throttle = quota(1_000)
    assert not throttle.is_exceeded(0)
    throttle.record(5_000, 0)
    assert throttle.is_exceeded(0)
    assert throttle.is_exceeded(4_900)
    assert not throttle.is_exceeded(5_000)


def test_what_is_older_than_the_window_is_forgotten_and_without_a_rate_nothing_is_too_much() -> None:
    throttle = quota(1)
    throttle.record(1_000_000, 0)
    assert throttle.is_exceeded(10_999)
    assert not throttle.is_exceeded(11_000)
    unlimited = quota(LONG_MAX)
    unlimited.record(1 << 60, 0)
    assert not unlimited.is_limited
    assert not unlimited.is_exceeded(0)


def test_both_rates_change_with_the_settings_of_the_broker() -> None:
    quotas = ReplicationQuotas(ReplicationSettings())
    assert not quotas.leader.is_limited
    assert not quotas.follower.is_limited
    quotas.reconfigure(replace(ReplicationSettings(), follower_replication_throttled_rate=0))
    quotas.follower.record(1, 0)
    assert quotas.follower.is_exceeded(0)
    assert not quotas.leader.is_limited
    quotas.reconfigure(ReplicationSettings())
    assert not quotas.follower.is_exceeded(0)


@pytest.mark.parametrize(
    ("value", "index", "broker", "has"),
    [("", 0, 1, False), ("*", 7, 9, True), ("0:1,2:3", 2, 3, True), ("0:1,2:3", 0, 3, False), (" 0:1 ", 0, 1, True)],
)
def test_replicas_are_named_by_partition_and_broker_or_all(value: str, index: int, broker: int, has: bool) -> None:
    defaults = topic_defaults(node_config(Path()).topics)
    assert parse_topic_config({**defaults, LEADER_LIST: value}).leader_throttled.has(index, broker) is has
    assert parse_topic_config({**defaults, FOLLOWER_LIST: value}).follower_throttled.has(index, broker) is has


def led(path: Path, *, isr: tuple[int, ...], throttled: str) -> HostedPartition:
    """A partition of 1,000 bytes that this broker leads."""
    replicas = replicas_at(path)
    state = topic("t", 1)
    state = replace(state, partitions=(replace(state.partitions[0], isr=isr),))
    replicas.roles.apply_image(MetadataImage(), image(state, configs={"t": {LEADER_LIST: throttled}}))
    hosted = the(replicas, "t")
    hosted.log.append_as_follower(BATCH)
    return hosted


def reads_of(hosted: HostedPartition, path: Path, throttle: ReplicationQuota) -> PartitionReads:
    services: Any = SimpleNamespace(
        config=node_config(path),
        partitions=SimpleNamespace(get=lambda name, index: hosted),
        replication_quotas=SimpleNamespace(leader=throttle),
    )
    return PartitionReads(services, Reader(PEER, 1, False))


def fetched(reads: PartitionReads) -> bytes:
    read = reads.read(AskedPartition("t", None, 0, 0, -1, -1, 1 << 20, 0), 1 << 20, is_first=True)
    assert read.error is ErrorCode.none
    reads.count_throttled([read])
    return read.records


@pytest.mark.parametrize("throttled", ["*", f"0:{ME}"])
def test_a_leader_leaves_out_records_for_a_replica_that_is_out_of_sync_once_the_rate_is_used_up(
    tmp_path: Path, throttled: str
) -> None:
    reads = reads_of(led(tmp_path, isr=(ME,), throttled=throttled), tmp_path, used_up_by_anything())
    assert fetched(reads) != b"", "nothing was sent yet"
    assert fetched(reads) == b""


@pytest.mark.parametrize(
    ("isr", "throttled"), [((ME, PEER), "*"), ((ME,), ""), ((ME,), f"1:{ME}"), ((ME,), f"0:{PEER}")]
)
def test_nobody_else_waits(tmp_path: Path, isr: tuple[int, ...], throttled: str) -> None:
    throttle = used_up_by_anything()
    reads = reads_of(led(tmp_path, isr=isr, throttled=throttled), tmp_path, throttle)
    assert fetched(reads) != b""
    assert fetched(reads) != b""


def test_what_replicas_in_sync_get_counts_too(tmp_path: Path) -> None:
    throttle = used_up_by_anything()
    fetched(reads_of(led(tmp_path, isr=(ME, PEER), throttled="*"), tmp_path, throttle))
    assert throttle.is_exceeded(0)


def test_a_follower_does_not_ask_for_what_must_wait(tmp_path: Path) -> None:
    """Its other partitions, and those that have all of their leader's records, it asks for."""
    replicas = replicas_at(tmp_path)
    topics = [topic(name, number, leader=PEER) for number, name in enumerate(["behind", "full", "free"], start=1)]
    throttled = {name: {FOLLOWER_LIST: f"0:{ME}"} for name in ("behind", "full")}
    replicas.roles.apply_image(MetadataImage(), image(*topics, configs=throttled))
    throttle = used_up_by_anything()

    async def run() -> None:
        fetcher = _Fetcher(
            leader_id=PEER,
            node_id=ME,
            settings=ReplicationSettings(),
            logger=Logger(ME),
            replicas=replicas,
            address=lambda: None,
            broker_epoch=lambda: 1,
            quota=throttle,
            dialler=plain_dialler(Logger(ME)),
        )
        followed = replicas.partitions.followed(PEER)
        assert fetcher._not_throttled(followed) is followed
        for name, high_watermark in (("behind", 2), ("full", 1)):
            assert fetcher._handle_partition(the(replicas, name), answer(high_watermark), 0)
        assert {each.topic for each in fetcher._not_throttled(followed)} == {"full", "free"}

    asyncio.run(run())


def answer(high_watermark: int) -> Any:
    """One batch, of a leader that has committed so far."""
    return SimpleNamespace(
        error_code=ErrorCode.none,
        diverging_epoch=SimpleNamespace(epoch=-1, end_offset=-1),
        records=BATCH,
        high_watermark=high_watermark,
        log_start_offset=0,
    )
