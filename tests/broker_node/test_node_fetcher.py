"""What a follower makes of an answer that says that its offset is out of the leader's range."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

from partitions_helper import ME, PEER, image, node_config, replicas_at, the, topic

from broker.controller.image import MetadataImage
from broker.node.net.dialling import plain_dialler
from broker.node.process.logs import Logger
from broker.node.replicas.fetcher import _Fetcher
from broker.node.replicas.replicas import Replicas
from broker.node.replicas.replication_quotas import ReplicationQuotas
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message
from broker.wire.records import encode_batch


class OutOfRange:
    """The part of an answer that tells it."""

    error_code = ErrorCode.offset_out_of_range

    def __init__(self, log_start_offset: int) -> None:
        self.log_start_offset = log_start_offset


def handle(replicas: Replicas, path: Path, *, leader_log_start: int) -> bool:
    async def run() -> bool:
        fetcher = _Fetcher(
            leader_id=PEER,
            config=node_config(path),
            logger=Logger(ME),
            replicas=replicas,
            address=lambda: None,
            broker_epoch=lambda: 1,
            quota=ReplicationQuotas(node_config(path)).follower,
            dialler=plain_dialler(Logger(ME)),
        )
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
