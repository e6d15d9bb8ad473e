"""The guard that a transactional append needs before a log has an ongoing transaction of its producer (KIP-890).

Without it, a batch that was long on its way could be appended after the end of its transaction and hang there for
ever, the last stable offset with it. So the first batch of a transaction is appended only with a guard: taken before
the coordinator is asked whether the partition belongs to the ongoing transaction, and taken away by an end marker that
comes in between.

Owns: one guard per producer that is being verified. Knows no coordinator.
Shown by tests/broker_log/test_log_transactions.py.
"""

from __future__ import annotations

PENDING_MAX = 100_000  # the longest unused leaves first: its batch is then refused and sent again


class VerificationGuard:
    """Compared by identity. `lowest_sequence` is the lowest that waited for this verification."""

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
        """The transaction has begun here, or ended: what still waits for a verification is refused."""
        self._pending.pop(producer_id, None)

    def clear(self) -> None:
        self._pending.clear()
