"""The admin of share groups (KIP-932): it lists, describes and deletes groups, and tells where they stand.

It is reached as `Admin(..).share_groups`. Each call goes to the coordinator of the group and is bounded by
default.api.timeout.ms. Settings of a group are set by `Admin.alter_configs("group", ..)`. Shown by
tests/broker_node/test_node_share_consumer.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.client.admin_groups import GroupAdmin, GroupListing
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
    from broker.wire.shapes.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse

_UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMemberDescription:
    member_id: str
    client_id: str
    client_host: str
    epoch: int
    topics: frozenset[str]  # to which it has subscribed
    assignment: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescription:
    group_id: str
    state: str
    assignor: str
    epoch: int
    coordinator: int
    members: tuple[ShareMemberDescription, ...]


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

    def list(self) -> dict[str, GroupListing]:
        """The share groups of all coordinators, by group id."""
        return self._groups.list(types=["share"])

    def describe(self, group_id: str) -> ShareGroupDescription:
        """Raises GROUP_ID_NOT_FOUND if there is no share group of that name."""

        def build(version: int) -> ShareGroupDescribeRequest:
            return request(
                ApiKey.SHARE_GROUP_DESCRIBE, version, group_ids=[group_id], include_authorized_operations=False
            )

        return self._groups.at_coordinator(group_id, ApiKey.SHARE_GROUP_DESCRIBE, build, _description)

    def delete(self, group_id: str) -> None:
        """Raises NON_EMPTY_GROUP while the group has members."""
        self._groups.delete(group_id)

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


def _description(answer: ShareGroupDescribeResponse, node: int) -> ShareGroupDescription:
    group = first_of(answer.groups)
    _raise_error(group.error_code, group.error_message, f"group {group.group_id!r}")
    return ShareGroupDescription(
        group_id=group.group_id,
        state=group.group_state,
        assignor=group.assignor_name,
        epoch=group.group_epoch,
        coordinator=node,
        members=tuple(
            ShareMemberDescription(
                member_id=each.member_id,
                client_id=each.client_id,
                client_host=each.client_host,
                epoch=each.member_epoch,
                topics=frozenset(each.subscribed_topic_names),
                assignment=frozenset(
                    TopicPartition(topic.topic_name, index)
                    for topic in each.assignment.topic_partitions
                    for index in topic.partitions
                ),
            )
            for each in group.members
        ),
    )


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
