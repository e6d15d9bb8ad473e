"""TxnOffsetCommit (key 28), versions 0-5: offsets of a group that are committed when the transaction commits (KIP-98,
KIP-447).

They are transactional records of `__consumer_offsets`. As for any partition, the broker asks the transaction's
coordinator whether the group's partition belongs to the transaction. Since version 5 the question adds the partition
(KIP-890 part 2). Nothing is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.groups.events import CommitOffsets, CommitResult, OffsetToCommit
from broker.log.producers import Verdict
from broker.log.verification import VerificationGuard
from broker.node.coordination.groups import OFFSETS_TOPIC
from broker.node.coordination.verification import Producer
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest, guarded
from broker.node.process.clock import wall_ms
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import txn_offset_commit as shapes

ADDS_SINCE_VERSION = 5
ABORTABLE_SINCE_VERSION = 4
_LATER = frozenset({ErrorCode.network_exception, ErrorCode.request_timed_out, ErrorCode.not_coordinator})


def handle(services: Services, request: AnyRequest[shapes.TxnOffsetCommitRequest]) -> None:
    message, image = request.message, services.metadata.image
    asked = [(topic.name, each.partition_index) for topic in message.topics for each in topic.partitions]
    if not any(image.partition(*each) for each in asked):
        _answer(services, request, ErrorCode.none)  # every partition has its own error
        return
    if not message.group_id:
        _answer(services, request, ErrorCode.invalid_group_id)
        return
    index = services.groups.host.partition_of(message.group_id)
    hosted = None if index is None else services.partitions.get(OFFSETS_TOPIC, index)
    if hosted is None or not hosted.replica.is_leader:
        _answer(services, request, ErrorCode.not_coordinator)
        return
    if not message.transactional_id:
        _answer(services, request, ErrorCode.invalid_request)
        return
    log, is_adding = hosted.log, request.version >= ADDS_SINCE_VERSION
    must_be_verified = is_adding or services.config_in_effect().transactions.transaction_partition_verification_enable
    producer = Producer(
        transactional_id=message.transactional_id,
        producer_id=message.producer_id,
        producer_epoch=message.producer_epoch,
    )

    def take_guard() -> VerificationGuard | None:
        if not must_be_verified:
            return None
        return log.checks.begin_verification(
            producer.producer_id, producer.producer_epoch, supports_epoch_bump=is_adding
        )

    def proceed(error: ErrorCode, guard: VerificationGuard | None) -> None:
        if error is not ErrorCode.none:
            _answer(services, request, _client_error(error, request.version))
            return
        verdict = log.checks.may_append_transactionally(
            producer.producer_id, producer.producer_epoch, guard, must_be_verified=must_be_verified
        )
        if verdict is Verdict.OK:
            _commit(services, request)
        else:
            is_old = verdict is Verdict.INVALID_EPOCH
            _answer(services, request, ErrorCode.invalid_producer_epoch if is_old else ErrorCode.invalid_txn_state)

    services.verifier.ask(
        producer, hosted.key, adds=is_adding, take_guard=take_guard, proceed=guarded(request, proceed)
    )


def _commit(services: Services, request: AnyRequest[shapes.TxnOffsetCommitRequest]) -> None:
    message, image = request.message, services.metadata.image
    offsets = []
    for topic in message.topics:
        state = image.topics.get(topic.name)
        if state is None:
            continue
        offsets += [
            OffsetToCommit(
                topic=topic.name,
                partition=each.partition_index,
                offset=each.committed_offset,
                leader_epoch=field_or(each, "committed_leader_epoch", -1),
                metadata=each.committed_metadata or "",
                topic_id=state.topic_id,
            )
            for each in topic.partitions
            if 0 <= each.partition_index < len(state.partitions)
        ]

    def event(token: int) -> CommitOffsets:
        return CommitOffsets(
            token=token,
            group_id=message.group_id,
            member_id=field_or(message, "member_id", ""),
            instance_id=field_or(message, "group_instance_id", None),
            generation=field_or(message, "generation_id", -1),
            offsets=tuple(offsets),
            wall_ms=wall_ms(),
            producer_id=message.producer_id,
            producer_epoch=message.producer_epoch,
        )

    def done(result: CommitResult) -> None:
        _answer(services, request, result.error_code, dict(result.partitions))

    services.groups.ask(
        message.group_id,
        event,
        CommitResult,
        done=guarded(request, done),
        refused=guarded(request, lambda error: _answer(services, request, error)),
    )


def _client_error(error: ErrorCode, version: int) -> ErrorCode:
    """The transaction coordinator's error, translated to one that a client of this version can handle."""
    if error in _LATER:
        return ErrorCode.coordinator_not_available
    if error is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if error is ErrorCode.concurrent_transactions and version < ADDS_SINCE_VERSION:
        return ErrorCode.coordinator_load_in_progress  # the client knows this error and retries
    if error is ErrorCode.transaction_abortable and version < ABORTABLE_SINCE_VERSION:
        return ErrorCode.invalid_txn_state
    return error


def _answer(
    services: Services,
    request: AnyRequest[shapes.TxnOffsetCommitRequest],
    error: ErrorCode,
    errors: dict[tuple[str, int], ErrorCode] | None = None,
) -> None:
    image, of_partition = services.metadata.image, errors or {}
    topics: list[shapes.TxnOffsetCommitResponseTopicFields] = [
        {
            "name": topic.name,
            "partitions": [
                {
                    "partition_index": each.partition_index,
                    "error_code": of_partition.get((topic.name, each.partition_index), error)
                    if image.partition(topic.name, each.partition_index) is not None
                    else ErrorCode.unknown_topic_or_partition,
                }
                for each in topic.partitions
            ],
        }
        for topic in request.message.topics
        if topic.partitions or topic.name not in image.topics
    ]
    request.respond(response(ApiKey.TXN_OFFSET_COMMIT, request.version, topics=topics))
