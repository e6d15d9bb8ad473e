"""The changes that one event makes in a group of the new protocol (KIP-848): records, which are applied as they are
added, or a refusal."""

from __future__ import annotations

from broker.coordinator.groups.consumer_group import ConsumerGroup
from broker.coordinator.groups.reconcile import Current
from broker.coordinator.groups.records import CurrentMemberKey, CurrentMemberValue, Record
from broker.wire.errors import ErrorCode


class Refused(Exception):
    """The request is answered with this error and changes nothing."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


class Draft:
    """The records of one event. They are applied to the group as they are added, so that the next step sees them."""

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.records: list[Record] = []

    def add(self, record: Record) -> None:
        self.records.append(record)
        self.group.apply(*record)


def current_record(group_id: str, member_id: str, current: Current) -> Record:
    value = CurrentMemberValue(
        member_epoch=current.member_epoch,
        previous_member_epoch=current.previous_member_epoch,
        state=int(current.state),
        assigned=current.assigned,
        pending_revocation=current.pending_revocation,
        epochs=current.epochs,
    )
    return CurrentMemberKey(group_id=group_id, member_id=member_id), value
