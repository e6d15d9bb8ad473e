"""AlterPartition: the leader of a partition asks to change its ISR (KIP-497, broker epochs of KIP-903)."""

from __future__ import annotations

from uuid import UUID

from broker.controller import eligible
from broker.controller.brokers import check_epoch
from broker.controller.elections import able, change_partition, is_unclean_allowed, leaders_allowed
from broker.controller.image import MetadataImage, PartitionState
from broker.controller.outcome import Outcome, refusal
from broker.controller.records import LEADER_STAYS, PartitionChangeRecord
from broker.controller.replay import apply_change
from broker.controller.types import AlteredPartition, AlterPartition, AlterPartitionResponse, IsrChange
from broker.wire.errors import ErrorCode


def alter_partitions(image: MetadataImage, request: AlterPartition, *, unclean: bool) -> Outcome:
    error = check_epoch(image, request.broker_id, request.broker_epoch)
    if error != ErrorCode.none:
        return Outcome(response=refusal(request, error))
    records: list[PartitionChangeRecord] = []
    altered: list[AlteredPartition] = []
    seen: set[tuple[object, int]] = set()
    for change in request.changes:
        key = (change.topic_id, change.partition)
        answer, record = (
            (_refused(change, ErrorCode.invalid_request), None)
            if key in seen
            else _alter_one(image, request.broker_id, change, unclean=unclean)
        )
        seen.add(key)
        altered.append(answer)
        if record is not None:
            records.append(record)
    response = AlterPartitionResponse(error_code=ErrorCode.none, partitions=tuple(altered))
    return Outcome(response=response, records=tuple(records))


def _refused(change: IsrChange, error_code: int) -> AlteredPartition:
    return AlteredPartition(topic_id=change.topic_id, partition=change.partition, error_code=error_code, state=None)


def _alter_one(
    image: MetadataImage, broker_id: int, change: IsrChange, *, unclean: bool
) -> tuple[AlteredPartition, PartitionChangeRecord | None]:
    topic = image.topic_by_id(change.topic_id)
    if topic is None:
        return _refused(change, ErrorCode.unknown_topic_id), None
    state = image.partition(topic.name, change.partition)
    if state is None:
        return _refused(change, ErrorCode.unknown_topic_or_partition), None
    error = _isr_error(image, broker_id, change, topic.topic_id, state)
    if error != ErrorCode.none:
        return _refused(change, error), None
    # In replica order, so that equal sets give equal records.
    isr = tuple(replica for replica in state.replicas if replica in change.new_isr)
    unchanged = set(isr) == set(state.isr)
    record = None
    if not unchanged:
        record = change_partition(
            state,
            topic.topic_id,
            change.partition,
            isr=isr,
            may_lead=able(image, leaders_allowed(image), topic.topic_id, change.partition),
            unclean=is_unclean_allowed(image, topic.name, unclean),
            min_isr=eligible.min_isr_of(image, topic.name),
        )
        if record is not None and record.leader not in (LEADER_STAYS, broker_id):
            # This change completed a reassignment after which the sender is not the leader. It waits for the image.
            return _refused(change, ErrorCode.new_leader_elected), record
    after = state if record is None else apply_change(state, record)
    answer = AlteredPartition(
        topic_id=change.topic_id, partition=change.partition, error_code=ErrorCode.none, state=after
    )
    return answer, record


def _isr_error(image: MetadataImage, broker_id: int, change: IsrChange, topic_id: UUID, state: PartitionState) -> int:
    """Kafka's checks in Kafka's order. If an epoch is newer than ours, this node is not the controller any more."""
    if change.leader_epoch > state.leader_epoch or change.partition_epoch > state.partition_epoch:
        return ErrorCode.not_controller
    if change.leader_epoch < state.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    if broker_id != state.leader:
        return ErrorCode.invalid_request
    if change.partition_epoch < state.partition_epoch:
        return ErrorCode.invalid_update_version
    new_isr = set(change.new_isr)
    if state.leader not in new_isr or not new_isr <= set(state.replicas):
        return ErrorCode.invalid_request
    if any(not _is_eligible(image, replica, epoch) for replica, epoch in change.new_isr.items()):
        return ErrorCode.ineligible_replica
    if any(image.has_offline(replica, topic_id, change.partition) for replica in new_isr - set(state.isr)):
        return ErrorCode.ineligible_replica
    return ErrorCode.none


def _is_eligible(image: MetadataImage, replica: int, broker_epoch: int) -> bool:
    """A replica may have lost records if it restarted after the leader saw it fetch. Its broker epoch shows this."""
    broker = image.brokers.get(replica)
    return broker is not None and broker.may_lead and broker_epoch in (-1, broker.broker_epoch)
