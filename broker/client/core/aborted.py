"""Which records of a fetched answer a reader of committed data must not see (isolation.level=read_committed, KIP-98).

Owns: the open aborted transactions while one answer is read. The list of them comes with each answer.
Shown by tests/broker_client/test_client_transactions.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.wire.records import RawBatch, control_key


class AbortedTransactions:
    """Decides which batches of one answer belong to aborted transactions. It must get the batches in order."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._ahead = sorted(aborted, key=lambda each: each[1], reverse=True)  # the next one stands last
        self._open: set[int] = set()

    def drops(self, batch: RawBatch) -> bool:
        header = batch.header
        while self._ahead and self._ahead[-1][1] <= header.last_offset:
            self._open.add(self._ahead.pop()[0])
        if not header.is_transactional or header.producer_id not in self._open:
            return False
        if header.is_control and _is_abort(batch):
            self._open.discard(header.producer_id)
        return not header.is_control


def _is_abort(batch: RawBatch) -> bool:
    """The key of a control record is a version and a type. Type 0 is ABORT."""
    key = control_key(batch)
    return key is not None and key[2:4] == b"\x00\x00"
