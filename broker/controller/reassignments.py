"""AlterPartitionReassignments (KIP-455): begins, cancels or refuses reassignments. Errors and texts are Kafka's.

Each partition is decided by itself. If one is refused, this does not affect the others.
"""

from __future__ import annotations

from broker.controller import eligible
from broker.controller.directories import with_directories
from broker.controller.elections import able, change_partition, is_unclean_allowed, leaders_allowed
from broker.controller.image import MetadataImage, PartitionState
from broker.controller.outcome import Outcome
from broker.controller.reassignment import Assignment, Reverted, reverted, towards
from broker.controller.reassignment_types import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    ReassignmentOutcome,
    WantedReplicas,
)
from broker.controller.records import PartitionChangeRecord
from broker.controller.replay import apply_change
from broker.wire.errors import ErrorCode


class _Refused(Exception):
    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


def alter_reassignments(image: MetadataImage, request: AlterPartitionReassignments, *, unclean: bool) -> Outcome:
    records: list[PartitionChangeRecord] = []
    outcomes: list[ReassignmentOutcome] = []
    decided: dict[tuple[str, int], PartitionState] = {}  # a partition that is named twice is decided twice, in order
    for wanted in request.partitions:
        error, message = int(ErrorCode.none), None
        try:
            state = decided.get((wanted.topic, wanted.partition)) or _state(image, wanted)
            record = _change(image, wanted, state, request.allow_replication_factor_change, unclean=unclean)
            if record is not None:
                records.append(record)
                decided[wanted.topic, wanted.partition] = apply_change(state, record)
        except _Refused as refused:
            error, message = refused.error_code, str(refused)
        outcomes.append(
            ReassignmentOutcome(topic=wanted.topic, partition=wanted.partition, error_code=error, error_message=message)
        )
    response = AlterPartitionReassignmentsResponse(error_code=ErrorCode.none, partitions=tuple(outcomes))
    return Outcome(response=response, records=tuple(records))


def _state(image: MetadataImage, wanted: WantedReplicas) -> PartitionState:
    if wanted.topic not in image.topics:
        raise _Refused(ErrorCode.unknown_topic_or_partition, f"Unable to find a topic named {wanted.topic}.")
    state = image.partition(wanted.topic, wanted.partition)
    if state is None:
        raise _Refused(
            ErrorCode.unknown_topic_or_partition, f"Unable to find partition {wanted.topic}:{wanted.partition}."
        )
    return state


def _change(
    image: MetadataImage, wanted: WantedReplicas, state: PartitionState, may_change_factor: bool, *, unclean: bool
) -> PartitionChangeRecord | None:
    is_unclean_ok = is_unclean_allowed(image, wanted.topic, unclean)
    if wanted.replicas is None:
        back = _way_back(wanted, state, is_unclean_ok)
        assignment, isr = back.assignment, back.isr
    else:
        _check_target(image, wanted.replicas)
        if not may_change_factor:
            _check_factor(state, len(wanted.replicas))
        assignment, isr = towards(state, wanted.replicas), state.isr
    return _record(image, wanted, state, assignment, isr, unclean=is_unclean_ok)


def _record(
    image: MetadataImage,
    wanted: WantedReplicas,
    state: PartitionState,
    assignment: Assignment,
    isr: tuple[int, ...],
    *,
    unclean: bool,
) -> PartitionChangeRecord | None:
    topic_id = image.topics[wanted.topic].topic_id
    record = change_partition(
        state,
        topic_id,
        wanted.partition,
        isr=isr,
        may_lead=able(image, leaders_allowed(image), topic_id, wanted.partition),
        unclean=unclean,
        min_isr=eligible.min_isr_of(image, wanted.topic),
        assignment=assignment,
    )
    return None if record is None else with_directories(image, state, record)


def _way_back(wanted: WantedReplicas, state: PartitionState, is_unclean_ok: bool) -> Reverted:
    if not state.is_reassigning:
        raise _Refused(ErrorCode.no_reassignment_in_progress, "No partition reassignment is in progress.")
    back = reverted(state)
    if back.is_unclean and not is_unclean_ok:
        raise _Refused(
            ErrorCode.invalid_replica_assignment,
            f"Unable to revert partition assignment for {wanted.topic}:{wanted.partition} because it would require an "
            "unclean leader election.",
        )
    return back


def _check_target(image: MetadataImage, replicas: tuple[int, ...]) -> None:
    if not replicas:
        raise _Refused(
            ErrorCode.invalid_replica_assignment, "The manual partition assignment includes an empty replica list."
        )
    before = None
    for replica in sorted(replicas):
        if replica not in image.brokers:
            raise _Refused(
                ErrorCode.invalid_replica_assignment,
                f"The manual partition assignment includes broker {replica}, but no such broker is registered.",
            )
        if replica == before:
            raise _Refused(
                ErrorCode.invalid_replica_assignment,
                f"The manual partition assignment includes the broker {replica} more than once.",
            )
        before = replica


def _check_factor(state: PartitionState, wanted: int) -> None:
    present = len(set(state.replicas) - set(state.removing))
    if present != wanted:
        raise _Refused(
            ErrorCode.invalid_replication_factor, f"The replication factor is changed from {present} to {wanted}"
        )
