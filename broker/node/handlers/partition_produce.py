"""One partition of a Produce request, from the checks of its batch to its outcome.

Shown by tests/broker_node/test_node_produce_checks.py, test_node_transactions.py and the simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.log.verification import VerificationGuard
from broker.node.coordination.verification import PRODUCE_ADDS_SINCE_VERSION, Producer, produce_error
from broker.node.handlers.produce_answer import ProduceAnswer
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.node.process.clock import wall_ms
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.produce_checks import Rejection, recompressed, rejection_of, second_look, unpack
from broker.wire.compression import CodecId
from broker.wire.errors import CorruptBatchError, ErrorCode
from broker.wire.hot_produce import PartitionAnswer
from broker.wire.messages import to_ms
from broker.wire.records import BatchHeader, set_log_append_time, set_max_timestamp, validate_batches

if TYPE_CHECKING:
    from broker.wire.shapes.produce import ProduceRequest

ZSTD_SINCE_VERSION = 7
_BEFORE_ACKS = (ErrorCode.invalid_record, ErrorCode.unsupported_compression_type)  # errors in the form of the request
_NONE = ErrorCode.none  # looked up once, because each access to a member of an enum costs 70 ns


class PartitionProduce:
    """`result` is the partition's entry in the answer. `records` are in the receive buffer until `run` returns."""

    __slots__ = ("_answer", "_hosted", "_records", "_request", "_result", "_services")

    def __init__(
        self,
        services: Services,
        request: Request[ProduceRequest],
        answer: ProduceAnswer,
        result: PartitionAnswer,
        hosted: HostedPartition,
        records: memoryview | None,
    ) -> None:
        self._services, self._request, self._answer = services, request, answer
        self._result, self._hosted, self._records = result, hosted, records

    def run(self) -> ErrorCode:
        """Appends the batch. If this returns an error, the batch definitely was not appended."""
        hosted, request = self._hosted, self._request
        acks = request.message.acks
        if acks not in (-1, 0, 1):
            _, _, error = _check_batches(request, hosted, self._records)
            return error if error in _BEFORE_ACKS else ErrorCode.invalid_required_acks
        if not self._services.may_produce(hosted.topic, request.client_id):
            return ErrorCode.invalid_topic_exception
        error = hosted.replica.check_append(acks=acks)
        if error is not _NONE:
            return error
        records, headers, error = _check_batches(request, hosted, self._records)
        if error is not _NONE or records is None:
            return error
        config = hosted.config
        unpacked = unpack(records, headers[0], config)
        if isinstance(unpacked, Rejection):
            return self._rejected(unpacked)
        rejection = rejection_of(unpacked, headers[0], config, hosted.key)
        if rejection is not None:
            return self._rejected(rejection)
        if unpacked.max_timestamp != headers[0].max_timestamp and not config.has_log_append_time:
            headers = [_corrected(records, headers[0], unpacked.max_timestamp)]
        if config.compression is not None and config.compression is not headers[0].codec:
            records, headers = recompressed(unpacked.body, headers[0], config.compression, config.compression_level)
            if headers[0].size_bytes > config.max_message_bytes:
                return ErrorCode.message_too_large
        if config.has_log_append_time:
            headers = [_stamp(records, headers[0], self._result)]
        if self._services.config.own.harness_discard:
            self._discard(headers[0])
            return _NONE
        if headers[0].is_transactional and self._must_be_verified():
            return self._verify_then_append(records, headers)
        return self._append(records, headers)

    def _rejected(self, rejection: Rejection) -> ErrorCode:
        self._answer.rejections[self._result] = rejection
        self._result.log_start_offset = self._hosted.log.log_start_offset
        return rejection.code

    def _discard(self, header: BatchHeader) -> None:
        """With harness.discard, answers as if the batch were stored."""
        self._result.base_offset = self._hosted.discarded_offset
        self._hosted.discarded_offset += header.last_offset_delta + 1

    def _append(
        self,
        records: memoryview,
        headers: list[BatchHeader],
        *,
        guard: VerificationGuard | None = None,
        must_be_verified: bool = False,
    ) -> ErrorCode:
        hosted, request, result = self._hosted, self._request, self._result
        outcome = self._services.appends.append(
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
        if request.message.acks == -1 and not hosted.replica.is_replicated(outcome.required_offset):
            self._await(outcome.required_offset)
        return _NONE

    def _await(self, required_offset: int) -> None:
        self._answer.waiting += 1

        def done(error: ErrorCode) -> None:
            if error is not _NONE:
                self._result.error_code = error
                self._result.base_offset = -1
            self._answer.done()

        timeout_ms = max(0, to_ms(self._request.message.timeout))
        self._services.cores.await_replication(
            self._hosted, required_offset=required_offset, timeout_ms=timeout_ms, done=guarded(self._request, done)
        )

    # -- transactions ------------------------------------------------------------------------------------------------

    def _must_be_verified(self) -> bool:
        is_adding = self._request.version >= PRODUCE_ADDS_SINCE_VERSION
        return is_adding or self._services.config_in_effect().transactions.transaction_partition_verification_enable

    def _verify_then_append(self, records: memoryview, headers: list[BatchHeader]) -> ErrorCode:
        """Appends at once if the transaction is ongoing here, otherwise when the coordinator has confirmed it."""
        (header,) = headers
        hosted, request, answer = self._hosted, self._request, self._answer
        is_adding = request.version >= PRODUCE_ADDS_SINCE_VERSION
        transactional_id = request.message.transactional_id
        if not transactional_id:
            return ErrorCode.invalid_request
        producer = Producer(
            transactional_id=transactional_id, producer_id=header.producer_id, producer_epoch=header.producer_epoch
        )
        batch, first_error, is_waiting = records, _NONE, False

        def take_guard() -> VerificationGuard | None:
            return hosted.log.checks.begin_verification(
                header.producer_id, header.producer_epoch, sequence=header.base_sequence, supports_epoch_bump=is_adding
            )

        def proceed(error: ErrorCode, guard: VerificationGuard | None) -> None:
            nonlocal first_error
            error = produce_error(error, request.version)
            if error is _NONE:
                # this broker's role may have changed meanwhile
                error = hosted.replica.check_append(acks=request.message.acks)
            if error is _NONE:
                error = self._append(batch, headers, guard=guard, must_be_verified=True)
            if not is_waiting:
                first_error = error
                return
            if error is not _NONE:
                self._result.error_code = error
            if request.message.acks != 0:
                answer.done()

        if self._services.verifier.ask(
            producer, hosted.key, adds=is_adding, take_guard=take_guard, proceed=guarded(request, proceed)
        ):
            # copied, because the receive buffer is used again before the answer
            batch, is_waiting = memoryview(bytearray(records)), True
            answer.waiting += 1
        return first_error


def _corrected(records: memoryview, header: BatchHeader, max_timestamp: int) -> BatchHeader:
    """Writes the records' largest timestamp into the batch, as Apache Kafka does whatever the client wrote there. Else
    look-ups by time would unpack the batch for nothing, or miss it. The header keeps the CRC that the client sent."""
    set_max_timestamp(records, max_timestamp)
    return header._replace(max_timestamp=max_timestamp)


def _stamp(records: memoryview, header: BatchHeader, result: PartitionAnswer) -> BatchHeader:
    """Writes LogAppendTime into the batch and into the answer. The header keeps the CRC that the client sent. By this
    CRC the journal identifies the batch on the wire."""
    now_ms = wall_ms()
    set_log_append_time(records, now_ms)
    result.log_append_time_ms = now_ms
    return header._replace(max_timestamp=now_ms)


def _check_batches(
    request: Request[ProduceRequest], hosted: HostedPartition, records: memoryview | None
) -> tuple[memoryview | None, list[BatchHeader], ErrorCode]:
    """Returns the one batch, its header, and its error."""
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
        # only a group coordinator writes transactional batches without sequences
        return None, [], ErrorCode.invalid_record
    return records, headers, _NONE
