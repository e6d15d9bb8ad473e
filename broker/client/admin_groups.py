"""The admin of consumer groups: it describes and deletes groups, and tells their committed offsets.

It is reached as `Admin(..).groups`. Each call goes to the coordinator of the group and is bounded by
default.api.timeout.ms. Shown by tests/broker_client/test_client_admin.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from broker.client.blocking import Answer, BlockingClient, Build
from broker.client.clock import now_ms
from broker.client.coordinators import find_coordinator
from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError, first_of
from broker.client.core.groups.encodings import decode_assignment
from broker.client.core.transactions import OffsetAndMetadata
from broker.client.group_requests import committed_offsets
from broker.client.questions import GROUP
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode, RemoteProtocolError
from broker.wire.messages import field_or, request

if TYPE_CHECKING:
    from broker.wire.shapes.consumer_group_describe import Assignment, ConsumerGroupDescribeResponse
    from broker.wire.shapes.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
    from broker.wire.shapes.describe_groups import DescribeGroupsResponse
    from broker.wire.shapes.offset_fetch import (
        OffsetFetchRequest,
        OffsetFetchRequestGroupFields,
        OffsetFetchRequestTopicsFields,
        OffsetFetchResponse,
    )

Result = TypeVar("Result")
_CONSUMER_PROTOCOL_TYPE = "consumer"
_DEAD = "Dead"
_GROUPS_SINCE = 8  # the version of OffsetFetch that asks for several groups


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """`epoch` is the member epoch of the new protocol (KIP-848). It is -1 under the classic protocol."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    epoch: int
    assignment: frozenset[TopicPartition]
    target: frozenset[TopicPartition]  # differs from `assignment` until the member has taken its new assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    group_id: str
    group_type: str
    state: str
    assignor: str
    epoch: int  # the group epoch of the new protocol; -1 under the classic one
    coordinator: int
    members: tuple[MemberDescription, ...]


class GroupAdmin:
    def __init__(self, client: BlockingClient, timeout_ms: int) -> None:
        self._client = client
        self._timeout_ms = timeout_ms

    def describe(self, group_id: str) -> GroupDescription:
        """Raises GROUP_ID_NOT_FOUND if there is no group of that name."""
        try:
            return self.at_coordinator(
                group_id, ApiKey.CONSUMER_GROUP_DESCRIBE, _describe_consumer(group_id), _consumer_description
            )
        except KafkaError as error:
            if error.code not in (ErrorCode.group_id_not_found, ErrorCode.unsupported_version):
                raise
        return self.at_coordinator(group_id, ApiKey.DESCRIBE_GROUPS, _describe_classic(group_id), _classic_description)

    def delete(self, group_id: str) -> None:
        """Raises NON_EMPTY_GROUP while the group has members."""

        def build(version: int) -> DeleteGroupsRequest:
            return request(ApiKey.DELETE_GROUPS, version, groups_names=[group_id])

        def parse(answer: DeleteGroupsResponse, node: int) -> None:
            _raise_error(first_of(answer.results).error_code, f"group {group_id!r}")

        self.at_coordinator(group_id, ApiKey.DELETE_GROUPS, build, parse)

    def offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets of these partitions, or of all."""
        chosen = None if partitions is None else [TopicPartition(*each) for each in partitions]

        def build(version: int) -> OffsetFetchRequest:
            topics: list[OffsetFetchRequestTopicsFields] | None = None
            if chosen is not None:
                by_name: dict[str, list[int]] = {}
                for topic, index in chosen:
                    by_name.setdefault(topic, []).append(index)
                topics = [{"name": name, "partition_indexes": indexes} for name, indexes in by_name.items()]
            if version < _GROUPS_SINCE:
                return request(ApiKey.OFFSET_FETCH, version, group_id=group_id, topics=topics, require_stable=False)
            group: OffsetFetchRequestGroupFields = {
                "group_id": group_id,
                "member_id": None,
                "member_epoch": -1,
                "topics": topics,
            }
            return request(ApiKey.OFFSET_FETCH, version, groups=[group], require_stable=False)

        def parse(answer: OffsetFetchResponse, node: int) -> dict[TopicPartition, OffsetAndMetadata]:
            return {each: at for each, at in committed_offsets(answer).items() if at is not None}

        return self.at_coordinator(group_id, ApiKey.OFFSET_FETCH, build, parse)

    def at_coordinator(
        self, group_id: str, api_key: ApiKey, build: Build[Answer], parse: Callable[[Answer, int], Result]
    ) -> Result:
        """Asks the group's coordinator. `parse` gets the answer and the coordinator's id."""
        deadline_ms = self._deadline_ms()

        def ask() -> Result:
            node = find_coordinator(self._client, GROUP, group_id, deadline_ms)
            return parse(self._client.call(node, api_key, build, deadline_ms), node)

        return self._client.retrying(ask, deadline_ms)

    # -- private --------------------------------------------------------------------------------------------------

    def _deadline_ms(self) -> int:
        return now_ms() + self._timeout_ms


def _describe_consumer(group_id: str) -> Build[ConsumerGroupDescribeResponse]:
    return lambda version: request(
        ApiKey.CONSUMER_GROUP_DESCRIBE, version, group_ids=[group_id], include_authorized_operations=False
    )


def _describe_classic(group_id: str) -> Build[DescribeGroupsResponse]:
    return lambda version: request(
        ApiKey.DESCRIBE_GROUPS, version, groups=[group_id], include_authorized_operations=False
    )


def _consumer_description(answer: ConsumerGroupDescribeResponse, node: int) -> GroupDescription:
    group = first_of(answer.groups)
    _raise_error(group.error_code, f"group {group.group_id!r}")
    return GroupDescription(
        group_id=group.group_id,
        group_type="consumer",
        state=group.group_state,
        assignor=group.assignor_name,
        epoch=group.group_epoch,
        coordinator=node,
        members=tuple(
            MemberDescription(
                member_id=each.member_id,
                instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                epoch=each.member_epoch,
                assignment=_partitions(each.assignment),
                target=_partitions(each.target_assignment),
            )
            for each in group.members
        ),
    )


def _classic_description(answer: DescribeGroupsResponse, node: int) -> GroupDescription:
    group = first_of(answer.groups)
    _raise_error(group.error_code, f"group {group.group_id!r}")
    # before version 6 of DescribeGroups, this is how a broker says that the group does not exist
    if group.group_state == _DEAD:
        raise KafkaError(ErrorCode.group_id_not_found, f"group {group.group_id!r}")
    members = []
    for each in group.members:
        assignment = frozenset[TopicPartition]()
        if group.protocol_type == _CONSUMER_PROTOCOL_TYPE:
            try:
                assignment = decode_assignment(bytes(each.member_assignment))
            except RemoteProtocolError as error:
                raise KafkaError(-1, f"member {each.member_id!r}: {error}", name="LOCAL_PROTOCOL") from error
        members.append(
            MemberDescription(
                member_id=each.member_id,
                instance_id=field_or(each, "group_instance_id", None),
                client_id=each.client_id,
                client_host=each.client_host,
                epoch=-1,
                assignment=assignment,
                target=assignment,
            )
        )
    return GroupDescription(
        group_id=group.group_id,
        group_type="classic",
        state=group.group_state,
        assignor=group.protocol_data,
        epoch=-1,
        coordinator=node,
        members=tuple(members),
    )


def _partitions(assignment: Assignment) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions
    )


def _raise_error(code: ErrorCode, what: str) -> None:
    if code is not ErrorCode.none:
        raise KafkaError(code, what)
