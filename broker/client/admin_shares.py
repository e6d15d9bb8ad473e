"""The admin of share groups (KIP-932): it tells where they stand.

It is reached as `Admin(..).share_groups`. Each call goes to the coordinator of the group and is bounded by
default.api.timeout.ms. Settings of a group are set by `Admin.alter_configs("group", ..)`. Shown by
tests/broker_node/test_node_share_consumer.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.client.admin_groups import GroupAdmin
from broker.client.blocking import BlockingClient
from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError, first_of
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, request

if TYPE_CHECKING:
    from broker.wire.shapes.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestTopicFields,
        DescribeShareGroupOffsetsResponse,
    )

_UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffset:
    """Where a share partition begins: all records before `start_offset` are done. `lag` is the number of records that
    are not done. It is None if the broker does not tell."""

    start_offset: int
    leader_epoch: int
    lag: int | None


class ShareGroupAdmin:
    def __init__(self, client: BlockingClient, timeout_ms: int) -> None:
        self._groups = GroupAdmin(client, timeout_ms)

    def offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareOffset]:
        """Where the group stands in these partitions, or in all that it has begun with."""
        by_topic: dict[str, list[int]] = {}
        for topic, index in partitions or ():
            by_topic.setdefault(topic, []).append(index)

        def build(version: int) -> DescribeShareGroupOffsetsRequest:
            topics: list[DescribeShareGroupOffsetsRequestTopicFields] | None = None
            if partitions is not None:
                topics = [{"topic_name": name, "partitions": indexes} for name, indexes in by_topic.items()]
            return request(
                ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, version, groups=[{"group_id": group_id, "topics": topics}]
            )

        return self._groups.at_coordinator(group_id, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, build, _offsets)


def _offsets(answer: DescribeShareGroupOffsetsResponse, node: int) -> dict[TopicPartition, ShareOffset]:
    group = first_of(answer.groups)
    _raise_error(group.error_code, group.error_message, f"group {group.group_id!r}")
    found = {}
    for topic in group.topics:
        for each in topic.partitions:
            _raise_error(each.error_code, each.error_message, f"{topic.topic_name}-{each.partition_index}")
            lag = field_or(each, "lag", _UNKNOWN)
            if each.start_offset >= 0:  # the group has begun with the partition
                found[TopicPartition(topic.topic_name, each.partition_index)] = ShareOffset(
                    start_offset=each.start_offset, leader_epoch=each.leader_epoch, lag=None if lag < 0 else lag
                )
    return found


def _raise_error(code: ErrorCode, message: str | None, what: str) -> None:
    if code is not ErrorCode.none:
        raise KafkaError(code, f"{what}: {message}" if message else what)
