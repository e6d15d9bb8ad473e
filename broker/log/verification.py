"""The guard for the first transactional batch of a producer in a log (KIP-890).

Suppose that a batch was delayed on its way, and its transaction has ended. If the log appended it now, it would begin a
transaction that nobody ends, and the last stable offset would stay there for ever. So the first batch of a transaction
is appended only with a guard. The guard is taken before the coordinator is asked whether the partition belongs to the
ongoing transaction. An end marker that comes in between removes the guard.

Owns: one guard for each producer that is being verified. Knows no coordinator. Shown by
tests/broker_log/test_log_transactions.py.
"""

from __future__ import annotations

# Beyond this number the guard unused for the longest time is dropped. Its batch is then refused and sent again.
PENDING_MAX = 100_000


class VerificationGuard:
    """Guards are compared by identity. `lowest_sequence` is the lowest sequence that waited for this verification."""

    __slots__ = ("lowest_sequence", "producer_epoch", "supports_epoch_bump")

    def __init__(self, *, producer_epoch: int, lowest_sequence: int, supports_epoch_bump: bool) -> None:
        self.producer_epoch, self.lowest_sequence = producer_epoch, lowest_sequence
        self.supports_epoch_bump = supports_epoch_bump


class VerificationGuards:
    def __init__(self) -> None:
        self._pending: dict[int, VerificationGuard] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def current(self, producer_id: int) -> VerificationGuard | None:
        return self._pending.get(producer_id)

    def begin(
        self, producer_id: int, *, producer_epoch: int, sequence: int, supports_epoch_bump: bool
    ) -> VerificationGuard:
        """The guard of this producer; batches of one epoch that wait together share it."""
        guard = self._pending.pop(producer_id, None)
        if guard is None or producer_epoch > guard.producer_epoch:
            guard = VerificationGuard(
                producer_epoch=producer_epoch, lowest_sequence=sequence, supports_epoch_bump=supports_epoch_bump
            )
        elif producer_epoch == guard.producer_epoch:
            guard.lowest_sequence = min(guard.lowest_sequence, sequence)
        self._pending[producer_id] = guard
        if len(self._pending) > PENDING_MAX:
            del self._pending[next(iter(self._pending))]
        return guard

    def end(self, producer_id: int) -> None:
        """The transaction has begun here, or has ended. Batches that still wait for a verification are refused."""
        self._pending.pop(producer_id, None)

    def clear(self) -> None:
        self._pending.clear()
