"""The leader's appends to a partition: batches and transaction markers. Each is written to the journal, whether it was
appended or refused."""

from __future__ import annotations

from typing import TypeAlias

from broker.log.producers import Verdict
from broker.log.transactions import EndMarker
from broker.log.verification import VerificationGuard
from broker.node.process.clock import wall_ms
from broker.node.process.journal import Journal
from broker.node.replicas.cores import Cores
from broker.node.replicas.hosted import AppendOutcome, HostedPartition
from broker.node.replicas.partitions import Partitions
from broker.replication import Appended
from broker.wire.errors import ErrorCode
from broker.wire.records import BatchHeader

_REFUSALS = {
    Verdict.OUT_OF_ORDER: ErrorCode.out_of_order_sequence_number,
    Verdict.INVALID_EPOCH: ErrorCode.invalid_producer_epoch,
    Verdict.INVALID_TXN_STATE: ErrorCode.invalid_txn_state,
    Verdict.COORDINATOR_FENCED: ErrorCode.transaction_coordinator_fenced,
}
_Origin: TypeAlias = tuple[str, int]  # client id, correlation id
_OK, _NONE = Verdict.OK, ErrorCode.none  # looked up once, because each access to a member of an enum costs 70 ns


class Appends:
    def __init__(self, *, partitions: Partitions, cores: Cores, journal: Journal) -> None:
        self._partitions, self._cores, self._journal = partitions, cores, journal

    def append(
        self,
        hosted: HostedPartition,
        buffer: memoryview,
        headers: list[BatchHeader],
        *,
        client_id: str,
        correlation_id: int,
        guard: VerificationGuard | None = None,
        must_be_verified: bool = False,
    ) -> AppendOutcome:
        """Appends batches; their offsets are written into `buffer`. If the error code is not `none`, nothing was
        appended."""
        replica = hosted.replica
        try:
            result = hosted.log.append(
                buffer,
                leader_epoch=replica.leader_epoch,
                headers=headers,
                guard=guard,
                must_be_verified=must_be_verified,
            )
        except OSError as error:
            return self._partitions.storage_failed(hosted, error)
        origin = client_id, correlation_id
        if result.verdict is _OK:
            if self._journal.with_appends:
                for header in result.headers:
                    self._tell("appended", hosted, header, header.base_offset, origin)
            self._cores.perform(hosted, Appended(log_end_offset=hosted.log.log_end_offset))
            hosted.readers.appended()
            return AppendOutcome(_NONE, result.base_offset, result.last_offset + 1)
        if result.verdict is Verdict.DUPLICATE:
            self._tell("duplicate_sequence", hosted, headers[0], result.base_offset, origin)
        else:
            self._tell("out_of_order_sequence", hosted, headers[0], -1, origin)
            return AppendOutcome(error_code=_REFUSALS[result.verdict])
        return AppendOutcome(
            error_code=ErrorCode.none, base_offset=result.base_offset, required_offset=result.last_offset + 1
        )

    def append_marker(
        self,
        hosted: HostedPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        marker: EndMarker,
        transaction_version: int,
    ) -> AppendOutcome:
        """Ends the producer's transaction in this log. If the error code is not `none`, nothing was appended."""
        try:
            result = hosted.log.append_marker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                marker=marker,
                leader_epoch=hosted.replica.leader_epoch,
                timestamp_ms=wall_ms(),
                transaction_version=transaction_version,
            )
        except OSError as error:
            return self._partitions.storage_failed(hosted, error)
        facts = {"producer_id": producer_id, "producer_epoch": producer_epoch, "is_commit": marker.is_commit}
        if result.verdict is not Verdict.OK:
            error_code = _REFUSALS[result.verdict]
            where = {"topic": hosted.topic, "partition": hosted.index}
            self._journal.write("transaction_marker_refused", **where, **facts, error=error_code.name)
            return AppendOutcome(error_code=error_code)
        self._journal.write(
            "transaction_marker",
            topic=hosted.topic,
            partition=hosted.index,
            leader_epoch=hosted.replica.leader_epoch,
            offset=result.base_offset,
            coordinator_epoch=marker.coordinator_epoch,
            **facts,
        )
        self._cores.perform(hosted, Appended(log_end_offset=hosted.log.log_end_offset))
        hosted.readers.appended()
        return AppendOutcome(
            error_code=ErrorCode.none, base_offset=result.base_offset, required_offset=result.last_offset + 1
        )

    def _tell(
        self,
        kind: str,
        hosted: HostedPartition,
        header: BatchHeader,
        base_offset: int,  # -1: there is none
        origin: _Origin,
    ) -> None:
        client_id, correlation_id = origin
        self._journal.write(
            kind,
            topic=hosted.topic,
            partition=hosted.index,
            leader_epoch=hosted.replica.leader_epoch,
            base_offset=base_offset,
            last_offset=base_offset + header.last_offset_delta if base_offset >= 0 else -1,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            crc=header.crc,
            client_id=client_id,
            correlation_id=correlation_id,
        )
