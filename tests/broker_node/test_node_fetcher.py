"""What a follower makes of answers: its offset is out of the leader's range, or the leader refuses one of its
partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast
from uuid import UUID

import pytest
from partitions_helper import ME, PEER, image, node_config, replicas_at, the, topic

from broker.controller.image import MetadataImage
from broker.node.net.channel import Channel
from broker.node.net.dialling import plain_dialler
from broker.node.process.logs import Logger
from broker.node.replicas.fetcher import FETCH_VERSION, _Fetcher
from broker.node.replicas.replicas import Replicas
from broker.node.settings.config import NodeConfig, changed
from broker.wire.apis import ApiKey
from broker.wire.codec import decode_request
from broker.wire.encoder import Buffer
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, response
from broker.wire.records import encode_batch


class OutOfRange:
    """The part of an answer that tells it."""

    error_code = ErrorCode.offset_out_of_range

    def __init__(self, log_start_offset: int) -> None:
        self.log_start_offset = log_start_offset


def fetcher_of(replicas: Replicas, config: NodeConfig) -> _Fetcher:
    return _Fetcher(
        leader_id=PEER,
        node_id=config.node_id,
        settings=config.replication,
        logger=Logger(ME),
        replicas=replicas,
        address=lambda: None,
        broker_epoch=lambda: 1,
        dialler=plain_dialler(Logger(ME)),
    )


def handle(replicas: Replicas, path: Path, *, leader_log_start: int) -> bool:
    async def run() -> bool:
        fetcher = fetcher_of(replicas, node_config(path))
        hosted = the(replicas, "t")
        answer = cast(Message, OutOfRange(leader_log_start))
        return fetcher._handle_partition(hosted, answer, hosted.log.log_end_offset)

    return asyncio.run(run())


def following(path: Path) -> Replicas:
    replicas = replicas_at(path)
    replicas.roles.apply_image(MetadataImage(), image(topic("t", 1, leader=PEER)))
    return replicas


def test_an_empty_follower_above_its_leaders_end_begins_where_the_leaders_log_does(tmp_path: Path) -> None:
    """All its records were deleted, and a replica that had less was elected uncleanly: no epoch tells where they part.
    It asked from 100 for ever, and was never in the ISR again."""
    replicas = following(tmp_path)
    hosted = the(replicas, "t")
    replicas.following.restart_at(hosted, 100)
    assert handle(replicas, tmp_path, leader_log_start=0)
    assert (hosted.log.log_start_offset, hosted.log.log_end_offset) == (0, 0)
    assert hosted.replica.log_end_offset == 0
    hosted.replica.check_invariants()


def test_a_follower_behind_its_leaders_start_begins_there(tmp_path: Path) -> None:
    replicas = following(tmp_path)
    hosted = the(replicas, "t")
    hosted.log.append_as_follower(encode_batch([b"v"], timestamps_ms=1))
    replicas.following.followed_up(hosted, leader_epoch=0, leader_high_watermark=0)
    assert handle(replicas, tmp_path, leader_log_start=50)
    assert (hosted.log.log_start_offset, hosted.log.log_end_offset) == (50, 50)


def test_records_are_never_dropped_for_an_answer_that_the_epochs_should_have_given(tmp_path: Path) -> None:
    replicas = following(tmp_path)
    hosted = the(replicas, "t")
    hosted.log.append_as_follower(encode_batch([b"v"], timestamps_ms=1))
    replicas.following.followed_up(hosted, leader_epoch=0, leader_high_watermark=0)
    assert not handle(replicas, tmp_path, leader_log_start=0)
    assert hosted.log.log_end_offset == 1


class Leader:
    """Stands in for the connection to the leader. It refuses partition 0 for as long as `refuses`, and answers a
    request without any other partition's news only when the wait that the request allows is over, by its own clock."""

    def __init__(self) -> None:
        self.refuses, self.now_ms = True, 0
        self.asked: list[set[int]] = []  # the partitions in the session, for each request
        self._session: set[int] = set()
        self._epoch = 0

    async def request_encoded(
        self, encode: Callable[[int, str], list[Buffer]], decode: object, *, timeout_ms: int
    ) -> Message:
        (frame,) = encode(len(self.asked), "fetcher")
        _, request = decode_request(memoryview(bytes(frame))[4:])
        named = {each.partition for topic in request.topics for each in topic.partitions}
        gone = {index for topic in request.forgotten_topics_data for index in topic.partitions}
        self._session = (self._session | named) - gone
        self.asked.append(set(self._session))
        is_refused = self.refuses and 0 in self._session
        if not is_refused and len(self.asked) > 1:
            self.now_ms += round(1000 * request.max_wait.total_seconds())
        await asyncio.sleep(0)
        partitions = [{"partition_index": 0, "error_code": ErrorCode.not_leader_or_follower, "high_watermark": -1}]
        topics = [{"topic_id": UUID(int=1), "partitions": partitions}] if is_refused else []
        return response(ApiKey.FETCH, FETCH_VERSION, session_id=7, responses=topics)


def test_a_partition_that_the_leader_refuses_does_not_delay_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All partitions of this leader waited for replica.fetch.backoff.ms, again and again."""
    config = changed(node_config(tmp_path), replica_fetch_backoff_ms=50, replica_fetch_wait_max_ms=60_000)
    replicas = replicas_at(tmp_path)
    replicas.roles.apply_image(MetadataImage(), image(topic("t", 1, leader=PEER, partitions=3)))
    leader = Leader()
    monkeypatch.setattr("broker.node.replicas.fetcher.monotonic_ms", lambda: leader.now_ms)

    async def run() -> None:
        fetcher = fetcher_of(replicas, config)
        fetcher.channel = cast(Channel, leader)
        task = asyncio.create_task(fetcher.run())
        async with asyncio.timeout(30):
            while len(leader.asked) < 6:
                await asyncio.sleep(0.001)
            leader.refuses = False
            while leader.asked[-1] != {0, 1, 2}:
                await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(run())
    # Without the refused one at once, and with it again when its time is over: not only after the 60 s of a long poll.
    assert leader.asked[:6] == [{0, 1, 2}, {1, 2}] * 3


def test_if_every_partition_is_refused_nothing_is_asked_until_one_may_be_again(tmp_path: Path) -> None:
    config = changed(node_config(tmp_path), replica_fetch_backoff_ms=50)
    replicas = replicas_at(tmp_path)
    replicas.roles.apply_image(MetadataImage(), image(topic("t", 1, leader=PEER)))
    leader = Leader()

    async def run() -> float:
        fetcher = fetcher_of(replicas, config)
        fetcher.channel = cast(Channel, leader)
        began_s = asyncio.get_running_loop().time()
        task = asyncio.create_task(fetcher.run())
        async with asyncio.timeout(30):
            while len(leader.asked) < 4:
                await asyncio.sleep(0.001)
        task.cancel()
        return asyncio.get_running_loop().time() - began_s

    assert asyncio.run(run()) >= 0.14
    assert leader.asked[:4] == [{0}] * 4
