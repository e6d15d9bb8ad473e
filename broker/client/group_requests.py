"""Translates between the requests and answers of consumer groups and the values of core/groups. It does no I/O.

These are join, sync, heartbeat and leave of the classic protocol, the heartbeats of consumer groups (KIP-848) and of
share groups (KIP-932), commits, and look-ups of committed offsets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from broker.client.core.batch import TopicPartition
from broker.client.core.config import ConsumerConfig
from broker.client.core.errors import KafkaError, first_of
from broker.client.core.groups.events import (
    Action,
    ConsumerHeartbeatAnswered,
    Event,
    HeartbeatAnswered,
    Joined,
    LeftAnswered,
    SendConsumerHeartbeat,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendShareHeartbeat,
    SendSync,
    Synced,
)
from broker.client.core.shares.config import ShareConsumerConfig
from broker.client.core.transactions import OffsetAndMetadata
from broker.client.protocol import by_topic
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import error_of, field_or, request, to_ms

if TYPE_CHECKING:
    from uuid import UUID

    from broker.wire.shapes.consumer_group_heartbeat import (
        AskedTopicPartitionsFields,
        Assignment,
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )
    from broker.wire.shapes.heartbeat import HeartbeatRequest, HeartbeatResponse
    from broker.wire.shapes.join_group import JoinGroupRequest, JoinGroupResponse
    from broker.wire.shapes.leave_group import LeaveGroupRequest, MemberIdentityFields
    from broker.wire.shapes.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartitionFields,
        OffsetCommitResponse,
    )
    from broker.wire.shapes.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestGroupFields,
        OffsetFetchRequestTopicsFields,
        OffsetFetchResponse,
        OffsetFetchResponseTopic,
    )
    from broker.wire.shapes.share_group_heartbeat import Assignment as ShareAssignment
    from broker.wire.shapes.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
    from broker.wire.shapes.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_TYPE = "consumer"
_JOIN_GRACE_MS = 5000  # added to the rebalance timeout, as in Java: the coordinator answers shortly after that timeout
_GROUPS_SINCE = 8  # the version of OffsetFetch with several groups in one request
_INSTANCE_SINCE = 3  # the version of LeaveGroup that lists members
Send = SendJoin | SendSync | SendHeartbeat | SendLeave | SendConsumerHeartbeat | SendShareHeartbeat
MemberConfig: TypeAlias = ConsumerConfig | ShareConsumerConfig
MembershipRequest: TypeAlias = (
    "JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest | ConsumerGroupHeartbeatRequest"
    " | ShareGroupHeartbeatRequest"
)
API_OF: Mapping[type[Action], ApiKey] = {
    SendJoin: ApiKey.JOIN_GROUP,
    SendSync: ApiKey.SYNC_GROUP,
    SendHeartbeat: ApiKey.HEARTBEAT,
    SendLeave: ApiKey.LEAVE_GROUP,
    SendConsumerHeartbeat: ApiKey.CONSUMER_GROUP_HEARTBEAT,
    SendShareHeartbeat: ApiKey.SHARE_GROUP_HEARTBEAT,
}


class Identity(NamedTuple):
    """The member that commits. The coordinator uses it to fence an old member."""

    generation: int
    member_id: str


def timeout_ms(action: Send, config: MemberConfig) -> int:
    """The timeout of the request. It is longer for a join, because a join waits for the other members."""
    if isinstance(action, SendJoin):
        return max(config.request_timeout_ms, config.max_poll_interval_ms + _JOIN_GRACE_MS)
    return config.request_timeout_ms


def membership_request(action: Send, version: int, config: MemberConfig) -> MembershipRequest:
    if isinstance(config, ShareConsumerConfig):
        assert isinstance(action, SendShareHeartbeat), f"{action} is not of a share group"
        return request(
            ApiKey.SHARE_GROUP_HEARTBEAT,
            version,
            group_id=config.group_id,
            member_id=action.member_id,
            member_epoch=action.member_epoch,
            rack_id=(config.client_rack or None) if action.topics is not None else None,
            subscribed_topic_names=None if action.topics is None else sorted(action.topics),
        )
    return _consumer_request(action, version, config)


def _consumer_request(action: Send, version: int, config: ConsumerConfig) -> MembershipRequest:
    instance_id = config.group_instance_id or None
    match action:
        case SendJoin():
            return request(
                ApiKey.JOIN_GROUP,
                version,
                group_id=config.group_id,
                session_timeout=config.session_timeout_ms,
                rebalance_timeout=config.max_poll_interval_ms,
                member_id=action.member_id,
                group_instance_id=instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[{"name": name, "metadata": metadata} for name, metadata in action.protocols],
                reason=action.reason or None,
            )
        case SendSync():
            return request(
                ApiKey.SYNC_GROUP,
                version,
                group_id=config.group_id,
                generation_id=action.generation,
                member_id=action.member_id,
                group_instance_id=instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=action.assignor,
                assignments=[
                    {"member_id": member_id, "assignment": assignment} for member_id, assignment in action.assignments
                ],
            )
        case SendHeartbeat():
            return request(
                ApiKey.HEARTBEAT,
                version,
                group_id=config.group_id,
                generation_id=action.generation,
                member_id=action.member_id,
                group_instance_id=instance_id,
            )
        case SendLeave():
            member: MemberIdentityFields = {
                "member_id": action.member_id,
                "group_instance_id": instance_id,
                "reason": action.reason,
            }
            if version < _INSTANCE_SINCE:
                return request(ApiKey.LEAVE_GROUP, version, group_id=config.group_id, member_id=action.member_id)
            return request(ApiKey.LEAVE_GROUP, version, group_id=config.group_id, members=[member])
        case SendConsumerHeartbeat():
            return _consumer_heartbeat(action, version, config)
        case SendShareHeartbeat():
            raise AssertionError("a consumer is no member of a share group")


def _consumer_heartbeat(
    action: SendConsumerHeartbeat, version: int, config: ConsumerConfig
) -> ConsumerGroupHeartbeatRequest:
    owned: list[AskedTopicPartitionsFields] | None = None
    if action.owned is not None:
        by_id = defaultdict(list)
        for topic_id, partition in sorted(action.owned):
            by_id[topic_id].append(partition)
        owned = [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in by_id.items()]
    return request(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        version,
        group_id=config.group_id,
        member_id=action.member_id,
        member_epoch=action.member_epoch,
        instance_id=config.group_instance_id or None,
        rack_id=(config.client_rack or None) if action.is_full else None,
        rebalance_timeout=config.max_poll_interval_ms if action.is_full else -1,
        subscribed_topic_names=None if action.topics is None else sorted(action.topics),
        server_assignor=(config.group_remote_assignor or None) if action.is_full else None,
        topic_partitions=owned,
    )


def membership_event(action: Send, answer: Any) -> Event:
    """`answer` is the answer to the request of this action. Its type is Any, because each action has its own."""
    match action:
        case SendJoin():
            joined: JoinGroupResponse = answer
            return Joined(
                error=joined.error_code,
                generation=joined.generation_id,
                assignor=joined.protocol_name or "",
                leader=joined.leader,
                member_id=joined.member_id,
                skips_assignment=field_or(joined, "skip_assignment", False),
                members=tuple(
                    (each.member_id, field_or(each, "group_instance_id", None), bytes(each.metadata))
                    for each in joined.members
                ),
            )
        case SendSync():
            synced: SyncGroupResponse = answer
            return Synced(error=synced.error_code, assignment=bytes(synced.assignment))
        case SendHeartbeat():
            beaten: HeartbeatResponse = answer
            return HeartbeatAnswered(error=beaten.error_code)
        case SendLeave():
            return LeftAnswered()
        case SendConsumerHeartbeat() | SendShareHeartbeat():
            if action.member_epoch < 0:
                return LeftAnswered()
            told: ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse = answer
            given = told.assignment
            return ConsumerHeartbeatAnswered(
                error=told.error_code,
                message=told.error_message,
                member_id=told.member_id,
                member_epoch=told.member_epoch,
                interval_ms=to_ms(told.heartbeat_interval),
                assignment=None if given is None else frozenset(_assigned(given)),
            )


def _assigned(given: Assignment | ShareAssignment) -> Iterator[tuple[UUID, int]]:
    """No topic has the zero id (None). It stays in the assignment and is never resolved to a name."""
    for each in given.topic_partitions:
        topic_id = cast("UUID", each.topic_id)
        for index in each.partitions:
            yield topic_id, index


# -- offsets --------------------------------------------------------------------------------------------------------


def commit_request(
    version: int, config: ConsumerConfig, who: Identity, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> OffsetCommitRequest:
    return request(
        ApiKey.OFFSET_COMMIT,
        version,
        group_id=config.group_id,
        member_id=who.member_id,
        group_instance_id=config.group_instance_id or None,
        generation_id_or_member_epoch=who.generation,
        retention_time=-1,
        topics=[{"name": topic, "partitions": asked} for topic, asked in by_topic(commit_entries(offsets)).items()],
    )


def commit_entries(
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> list[tuple[TopicPartition, OffsetCommitRequestPartitionFields]]:
    return [
        (
            partition,
            {
                "partition_index": partition.partition,
                "committed_offset": offset,
                "committed_leader_epoch": leader_epoch,
                "committed_metadata": metadata,
            },
        )
        for partition, (offset, leader_epoch, metadata) in offsets.items()
    ]


def commit_error(answer: OffsetCommitResponse) -> KafkaError | None:
    """The error of the first partition that failed. The other partitions may have been committed."""
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code is not ErrorCode.none:
                return KafkaError(each.error_code, f"commit of {topic.name}-{each.partition_index}")
    return None


def committed_request(
    version: int, config: ConsumerConfig, who: Identity, partitions: Iterable[TopicPartition]
) -> OffsetFetchRequest:
    """With `require_stable` a partition with a pending offset of an open transaction gets UNSTABLE_OFFSET_COMMIT
    (KIP-447). The client then asks again."""
    indexes = defaultdict(list)
    for topic, partition in partitions:
        indexes[topic].append(partition)
    topics: list[OffsetFetchRequestTopicsFields] = [
        {"name": topic, "partition_indexes": found} for topic, found in indexes.items()
    ]
    if version < _GROUPS_SINCE:
        return request(ApiKey.OFFSET_FETCH, version, group_id=config.group_id, topics=topics, require_stable=True)
    group: OffsetFetchRequestGroupFields = {"group_id": config.group_id, "topics": topics}
    if config.group_protocol == "consumer" and version >= 9 and who.generation >= 0:
        group |= {"member_id": who.member_id, "member_epoch": who.generation}
    elif version >= 9:
        group |= {"member_id": None, "member_epoch": -1}
    return request(ApiKey.OFFSET_FETCH, version, groups=[group], require_stable=True)


def committed_offsets(answer: OffsetFetchResponse) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """None means that nothing was ever committed. Raises KafkaError."""
    groups = field_or(answer, "groups", None)
    group = answer if groups is None else first_of(groups)
    code = error_of(group)
    if code is not ErrorCode.none:
        raise KafkaError(code, "committed offsets")
    found: dict[TopicPartition, OffsetAndMetadata | None] = {}
    # The topics of a group and the topics of the message itself have the same fields.
    for topic in cast("tuple[OffsetFetchResponseTopic, ...]", group.topics):
        for each in topic.partitions:
            if each.error_code is not ErrorCode.none:
                raise KafkaError(each.error_code, f"committed offset of {topic.name}-{each.partition_index}")
            found[TopicPartition(topic.name, each.partition_index)] = (
                None
                if each.committed_offset < 0
                else OffsetAndMetadata(
                    each.committed_offset, field_or(each, "committed_leader_epoch", -1), each.metadata or ""
                )
            )
    return found
