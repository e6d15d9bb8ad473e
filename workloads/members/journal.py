"""A member's journal: one JSON line for each thing that it did, in one write(2), so that a SIGKILL tears none.

Written by the member's own thread after the fact: a record stands in it when the application is done with it. The
lines are those of runlog/records/member_journal.py; Journal.java writes the same.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from time import monotonic_ns

from runlog.records.history import Acknowledged, AcknowledgementKind, TransactionOutcome
from runlog.records.lines import MEMBER_JOURNAL, RecordWriter
from runlog.records.member_journal import (
    CopyBegan,
    CopyEnded,
    JournalKind,
    MemberSaid,
    OffsetsCommitted,
    PartitionsAssigned,
    PartitionsRevoked,
    RecordsDelivered,
    ShareAcknowledged,
    SharePolled,
)
from workloads.clients.member_protocol import Partition, Positions, SharePoll
from workloads.clients.protocol import ReceivedRecord


class MemberJournal:
    """The journal, which is also the client's MemberListener."""

    def __init__(self, path: Path) -> None:
        self._writer = RecordWriter(path, MEMBER_JOURNAL)

    def started(self) -> None:
        self._writer.append(MemberSaid(mono_ns=monotonic_ns(), kind=JournalKind.STARTED))

    def assigned(self, partitions: Sequence[Partition], generation: int) -> None:
        self._writer.append(
            PartitionsAssigned(mono_ns=monotonic_ns(), generation=generation, partitions=tuple(partitions))
        )

    def revoked(self, partitions: Sequence[Partition]) -> None:
        self._writer.append(PartitionsRevoked(mono_ns=monotonic_ns(), partitions=tuple(partitions)))

    def committed(self, positions: Positions) -> None:
        offsets = tuple((topic, partition, offset) for (topic, partition), offset in positions.items())
        self._writer.append(OffsetsCommitted(mono_ns=monotonic_ns(), offsets=offsets))

    def delivered(self, records: Sequence[ReceivedRecord], polled_ns: int) -> None:
        """Records that the application is done with. `polled_ns` is when poll returned them."""
        rows = tuple(
            (topic, partition, offset, at_ms, base64.b64encode(value).decode())
            for topic, partition, offset, value, at_ms in records
        )
        self._writer.append(RecordsDelivered(mono_ns=monotonic_ns(), polled_ns=polled_ns, records=rows))

    def share_polled(self, polled: SharePoll) -> None:
        """Written before the work begins: what a member acknowledges stands here."""
        rows = tuple(
            (topic, partition, offset, count)
            for (topic, partition, offset, _, _), count in zip(polled.records, polled.counts, strict=True)
        )
        self._writer.append(
            SharePolled(mono_ns=monotonic_ns(), polled_ns=polled.polled_ns, asked_ns=polled.asked_ns, records=rows)
        )

    def acknowledged(
        self,
        partition: Partition,
        kind: AcknowledgementKind,
        outcome: Acknowledged,
        offsets: Sequence[int],
        reason: str = "",
    ) -> None:
        self._writer.append(
            ShareAcknowledged(
                mono_ns=monotonic_ns(),
                topic=partition[0],
                partition=partition[1],
                type=kind,
                outcome=outcome,
                offsets=tuple(offsets),
                reason=reason,
            )
        )

    def transaction_began(self, number: int, records: int) -> None:
        self._writer.append(CopyBegan(mono_ns=monotonic_ns(), number=number, records=records))

    def transaction(self, number: int, outcome: TransactionOutcome, *, asked_ns: int, reason: str = "") -> None:
        """`asked_ns` is when its end was asked for."""
        self._writer.append(
            CopyEnded(mono_ns=monotonic_ns(), number=number, outcome=outcome, asked_ns=asked_ns, reason=reason)
        )

    def renewed(self, reason: str) -> None:
        """A copier's producer could not be used any more and was replaced."""
        self._writer.append(MemberSaid(mono_ns=monotonic_ns(), kind=JournalKind.RENEWED, reason=reason))

    def problem(self, message: str) -> None:
        self._writer.append(MemberSaid(mono_ns=monotonic_ns(), kind=JournalKind.PROBLEM, message=message))

    def left(self) -> None:
        self._writer.append(MemberSaid(mono_ns=monotonic_ns(), kind=JournalKind.LEFT))

    def close(self) -> None:
        self._writer.close()
