"""transaction.timeout.ms is accepted, and a transaction whose producer is gone stays open."""

from __future__ import annotations

from broker.coordinator.transactions.shard import TransactionShard
from broker.mutants import Patch


def apply(patch: Patch) -> None:
    patch.set(TransactionShard, "_note_deadline", lambda self, deadline_ms, transactional_id: None)
