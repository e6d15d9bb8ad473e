"""Which commits and fetches of offsets a streams group refuses."""

from __future__ import annotations

from broker.coordinator.groups.events import CommitOffsets, FetchOffsets
from broker.coordinator.groups.streams.group import StreamsGroup, StreamsMember
from broker.wire.errors import ErrorCode


def commit_problem(group: StreamsGroup, event: CommitOffsets) -> ErrorCode:
    epoch = event.generation
    is_old_producer = event.is_transactional and not event.member_id and event.instance_id is None
    if (epoch < 0 and not group.members) or (epoch == -1 and is_old_producer):
        return ErrorCode.none
    member = group.members.get(event.member_id)
    if member is None:
        return ErrorCode.unknown_member_id
    if not (event.knows_member_epochs or event.is_transactional):
        return ErrorCode.unsupported_version
    is_allowed = epoch == member.current.member_epoch or (
        epoch < member.current.member_epoch and _has_had(group, member, event)
    )
    if is_allowed:
        return ErrorCode.none
    return ErrorCode.illegal_generation if event.is_transactional else ErrorCode.stale_member_epoch


def _has_had(group: StreamsGroup, member: StreamsMember, event: CommitOffsets) -> bool:
    """Whether the member has had all tasks of these partitions since the epoch in which it commits (KIP-1251)."""
    subtopologies, current = group.source_topics(), member.current
    for each in event.offsets:
        subtopology_id = subtopologies.get(each.topic, "")
        since = current.assigned.active.get(subtopology_id, {}).get(each.partition)
        if since is None:
            since = current.pending_revocation.active.get(subtopology_id, {}).get(each.partition)
        if since is None or event.generation < since:
            return False
    return True


def fetch_problem(group: StreamsGroup, event: FetchOffsets) -> ErrorCode:
    if event.member_id is None and event.member_epoch < 0:
        return ErrorCode.none
    member = group.members.get(event.member_id or "")
    if member is None:
        return ErrorCode.unknown_member_id
    is_current = event.member_epoch == member.current.member_epoch
    return ErrorCode.none if is_current else ErrorCode.stale_member_epoch
