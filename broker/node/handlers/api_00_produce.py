"""Produce (key 0), versions 3-13; advertised from 0 (KAFKA-18659), 0-2 are refused. acks 0, 1, all; idempotence.

One batch per partition, as Kafka demands since version 3. Header, CRC, size and the structure of the records are
checked, the base offset is written in place, one write per append. A topic with message.timestamp.type=LogAppendTime
(KIP-32) gets the broker's time into each batch. harness.discard=true stops after the checks: acknowledged, not stored.
The first batch of a transaction waits until the coordinator has said that the partition belongs to it (KIP-890); since
version 12 that question adds the partition. What depends on the topic's settings (timestamps, keys, compression.type)
is in broker/node/produce_checks.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import UUID

from broker.log.verification import VerificationGuard
from broker.node.clock import wall_ms
from broker.node.control import guarded
from broker.node.internal_topics import may_produce
from broker.node.partitions import HostedPartition
from broker.node.produce_checks import Rejection, recompressed, rejection_of, second_look, unpack
from broker.node.turns import in_turns
from broker.node.verification import PRODUCE_ADDS_SINCE_VERSION, Producer, produce_error
from broker.wire.apis import ApiKey
from broker.wire.compression import CodecId
from broker.wire.errors import CorruptBatchError, ErrorCode
from broker.wire.hot_produce import TOPIC_IDS_SINCE_VERSION, PartitionAnswer, encode_produce_response
from broker.wire.messages import Message, response, to_ms
from broker.wire.records import BatchHeader, set_log_append_time, validate_batches

if TYPE_CHECKING:
    from broker.node.broker import Broker
    from broker.node.connection import Request

ZSTD_SINCE_VERSION = 7
RECORD_ERRORS_SINCE_VERSION = 8  # KIP-467
_BEFORE_ACKS = (ErrorCode.invalid_record, ErrorCode.unsupported_compression_type)  # of the request's form
_NONE = ErrorCode.none  # looked up once: an enum's member costs 70 ns each time


class _Answer:
    """The answer to one request under construction; `waiting` counts partitions whose outcome is open."""

    __slots__ = ("_request", "_topics", "has_failed", "rejections", "waiting")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._topics: list[tuple[str | UUID | None, list[PartitionAnswer]]] = []
        self.rejections: dict[PartitionAnswer, Rejection] = {}  # hardly ever any
        self.has_failed = False  # some partition, definitely
        self.waiting = 1  # the request itself, until all partitions are handled

    def topic(self, name: str | UUID | None) -> list[PartitionAnswer]:
        """Where the results of its partitions go."""
        partitions: list[PartitionAnswer] = []
        self._topics.append((name, partitions))
        return partitions

    def done(self) -> None:
        self.waiting -= 1
        if self.waiting:
            return
        request = self._request
        if request.charge is None and not self.rejections:  # no throttle time to tell, no records to name
            frame = encode_produce_response(request.version, request.header.correlation_id, self._topics)
            if frame is not None:
                request.respond_frame([frame])
                return
        request.respond(self._message())

    def _message(self) -> Message:
        key = "topic_id" if self._request.version >= TOPIC_IDS_SINCE_VERSION else "name"
        topics = [
            {key: topic, "partition_responses": [self._values(each) for each in partitions]}
            for topic, partitions in self._topics
        ]
        return response(ApiKey.PRODUCE, self._request.version, responses=topics)

    def _values(self, result: PartitionAnswer) -> dict[str, object]:
        values: dict[str, object] = {
            "index": result.index,
            "error_code": result.error_code,
            "base_offset": result.base_offset,
            "log_append_time": result.log_append_time_ms,
            "log_start_offset": result.log_start_offset,
        }
        rejection = self.rejections.get(result)
        if rejection is not None and self._request.version >= RECORD_ERRORS_SINCE_VERSION:
            values["error_message"] = rejection.text
            values["record_errors"] = [
                {"batch_index": each.batch_index, "batch_index_error_message": each.text} for each in rejection.records
            ]
        return values


def handle(broker: Broker, request: Request) -> None:
    """In turns: batches of many partitions that unpack to much would keep the loop for seconds."""
    answer = _Answer(request)

    def done() -> None:
        if request.message.acks != 0:
            answer.done()
        elif answer.has_failed:
            request.close_connection()  # the only way to tell a client that wants no answers
        else:
            request.respond_nothing()

    in_turns(request, _partitions(broker, request, answer), done)


def _partitions(broker: Broker, request: Request, answer: _Answer) -> Iterator[None]:
    """Handles one partition after the other."""
    by_id = request.version >= TOPIC_IDS_SINCE_VERSION
    for topic in request.message.topic_data:
        name = broker.metadata.image.topic_names.get(topic.topic_id) if by_id else topic.name
        if not topic.partition_data:
            continue
        partitions = answer.topic(topic.topic_id if by_id else topic.name)
        for data in topic.partition_data:
            result = PartitionAnswer(data.index)
            partitions.append(result)
            hosted = None if name is None else broker.partitions.get(name, data.index)
            error = _produce(broker, request, answer, result, hosted, data.records)
            if error is not _NONE:
                if error is ErrorCode.unknown_topic_or_partition:
                    error = _absent(broker, name, data.index, by_id=by_id)
                result.error_code = error
                answer.has_failed = True
            yield


def _absent(broker: Broker, name: str | None, index: int, *, by_id: bool) -> ErrorCode:
    """We do not host it: does it exist elsewhere?"""
    if name is None:
        return ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
    return broker.absent(name, index)


def _produce(
    broker: Broker,
    request: Request,
    answer: _Answer,
    result: PartitionAnswer,
    hosted: HostedPartition | None,
    records: memoryview | None,
) -> ErrorCode:
    """Append one partition's batch. An error returned here means that it definitely was not appended."""
    acks = request.message.acks
    if hosted is None:
        return ErrorCode.unknown_topic_or_partition
    if acks not in (-1, 0, 1):
        _, _, error = _check_batches(request, hosted, records)
        return error if error in _BEFORE_ACKS else ErrorCode.invalid_required_acks
    if not may_produce(hosted.topic, request.client_id):
        return ErrorCode.invalid_topic_exception
    error = hosted.replica.check_append(acks=acks)
    if error is not _NONE:
        return error
    records, headers, error = _check_batches(request, hosted, records)
    if error is not _NONE or records is None:
        return error
    config = hosted.config
    body = unpack(records, headers[0], config)
    rejection = body if isinstance(body, Rejection) else rejection_of(body, headers[0], config, hosted.key)
    if rejection is not None or isinstance(body, Rejection):
        assert rejection is not None
        answer.rejections[result] = rejection
        result.log_start_offset = hosted.log.log_start_offset
        return rejection.code
    if config.compression is not None and config.compression is not headers[0].codec:
        records, headers = recompressed(body, headers[0], config.compression, config.compression_level)
        if headers[0].size_bytes > config.max_message_bytes:
            return ErrorCode.message_too_large
    if config.has_log_append_time:
        headers = [_stamp(records, headers[0], result)]
    if broker.config.harness_discard:
        result.base_offset = hosted.discarded_offset
        hosted.discarded_offset += headers[0].last_offset_delta + 1
        return _NONE
    if headers[0].is_transactional and _must_be_verified(broker, request):
        return _verify_then_append(broker, request, answer, result, hosted, records, headers)
    return _append(broker, request, answer, result, hosted, records, headers)


def _append(
    broker: Broker,
    request: Request,
    answer: _Answer,
    result: PartitionAnswer,
    hosted: HostedPartition,
    records: memoryview,
    headers: list[BatchHeader],
    *,
    guard: VerificationGuard | None = None,
    must_be_verified: bool = False,
) -> ErrorCode:
    acks = request.message.acks
    outcome = broker.partitions.append(
        hosted,
        records,
        headers,
        client_id=request.client_id,
        correlation_id=request.header.correlation_id,
        guard=guard,
        must_be_verified=must_be_verified,
    )
    if outcome.error_code is not _NONE:
        return outcome.error_code
    result.base_offset = outcome.base_offset
    result.log_start_offset = hosted.log.log_start_offset
    if acks == -1 and not hosted.replica.is_replicated(outcome.required_offset):
        _await(broker, request, answer, result, hosted, outcome.required_offset)
    return _NONE


def _must_be_verified(broker: Broker, request: Request) -> bool:
    is_adding = request.version >= PRODUCE_ADDS_SINCE_VERSION
    return is_adding or broker.config.transaction_partition_verification_enable


def _verify_then_append(
    broker: Broker,
    request: Request,
    answer: _Answer,
    result: PartitionAnswer,
    hosted: HostedPartition,
    records: memoryview,
    headers: list[BatchHeader],
) -> ErrorCode:
    """Append at once if the transaction is ongoing here, otherwise once the coordinator has agreed."""
    (header,) = headers
    is_adding = request.version >= PRODUCE_ADDS_SINCE_VERSION
    transactional_id = request.message.transactional_id
    if not transactional_id:
        return ErrorCode.invalid_request
    producer = Producer(
        transactional_id=transactional_id, producer_id=header.producer_id, producer_epoch=header.producer_epoch
    )
    batch, first_error, is_waiting = records, _NONE, False

    def take_guard() -> VerificationGuard | None:
        return hosted.log.begin_verification(
            header.producer_id, header.producer_epoch, sequence=header.base_sequence, supports_epoch_bump=is_adding
        )

    def proceed(error: ErrorCode, guard: VerificationGuard | None) -> None:
        nonlocal first_error
        error = produce_error(error, request.version)
        if error is _NONE:
            error = hosted.replica.check_append(acks=request.message.acks)  # the role may have changed meanwhile
        if error is _NONE:
            error = _append(broker, request, answer, result, hosted, batch, headers, guard=guard, must_be_verified=True)
        if not is_waiting:
            first_error = error
            return
        if error is not _NONE:
            result.error_code = error
        if request.message.acks != 0:
            answer.done()

    if broker.verifier.ask(
        producer, hosted.key, adds=is_adding, take_guard=take_guard, proceed=guarded(request, proceed)
    ):
        batch, is_waiting = memoryview(bytearray(records)), True  # the receive buffer is used again until then
        answer.waiting += 1
    return first_error


def _stamp(records: memoryview, header: BatchHeader, result: PartitionAnswer) -> BatchHeader:
    """LogAppendTime into the batch and into the answer. The header keeps the CRC that the client sent: the journal
    tells by it which batch of the wire this was."""
    now_ms = wall_ms()
    set_log_append_time(records, now_ms)
    result.log_append_time_ms = now_ms
    return header._replace(max_timestamp=now_ms)


def _check_batches(
    request: Request, hosted: HostedPartition, records: memoryview | None
) -> tuple[memoryview | None, list[BatchHeader], ErrorCode]:
    """The one batch, its header, and what is wrong with it."""
    if records is None or not len(records):
        return None, [], ErrorCode.invalid_record
    try:
        headers = validate_batches(records)
    except CorruptBatchError:
        records, headers, error = second_look(records, knows_zstd=request.version >= ZSTD_SINCE_VERSION)
        if error is not _NONE:
            return None, [], error
    header = headers[0]
    if len(headers) != 1 or header.is_control:
        return None, [], ErrorCode.invalid_record
    if request.version < ZSTD_SINCE_VERSION and header.codec is CodecId.ZSTD:
        return None, [], ErrorCode.unsupported_compression_type
    if header.size_bytes > hosted.config.max_message_bytes:
        return None, [], ErrorCode.message_too_large
    if header.is_transactional and (header.producer_id < 0 or header.base_sequence < 0):
        return None, [], ErrorCode.invalid_record  # only a group coordinator writes without sequences
    return records, headers, _NONE


def _await(
    broker: Broker,
    request: Request,
    answer: _Answer,
    result: PartitionAnswer,
    hosted: HostedPartition,
    required_offset: int,
) -> None:
    answer.waiting += 1

    def done(error: ErrorCode) -> None:
        if error is not _NONE:
            result.error_code = error
            result.base_offset = -1
        answer.done()

    timeout_ms = max(0, to_ms(request.message.timeout))
    broker.partitions.await_replication(
        hosted, required_offset=required_offset, timeout_ms=timeout_ms, done=guarded(request, done)
    )
