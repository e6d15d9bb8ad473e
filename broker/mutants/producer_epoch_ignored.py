"""No producer is ever fenced: coordinators and logs accept requests of any producer epoch."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from broker.coordinator.transactions import shard
from broker.coordinator.transactions.metadata import Transaction
from broker.log.producer_checks import ProducerChecks
from broker.log.producers import ProducerState, Verdict
from broker.mutants import Patch
from broker.wire.records import BatchHeader

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    def check(self: ProducerState, header: BatchHeader, *, is_complete: bool = False) -> Any:
        found = check_log(self, header, is_complete=is_complete)
        return (Verdict.OK, None) if found[0] is Verdict.INVALID_EPOCH else found

    def check_producer(transaction: Transaction | None, producer_id: int, producer_epoch: int) -> Any:
        return check_coordinator(
            transaction, producer_id, producer_epoch if transaction is None else _newest(transaction)
        )

    def check_end(transaction: Transaction, event: Any) -> Any:
        return check_legacy_end(transaction, dataclasses.replace(event, producer_epoch=_newest(transaction)))

    def check_guard(self: ProducerChecks, header: BatchHeader, guard: Any) -> Verdict:
        return Verdict.OK

    check_log = patch.set(ProducerState, "check", check)
    check_coordinator = patch.set(shard, "check_producer", check_producer)
    check_legacy_end = patch.set(shard, "check_legacy_end", check_end)
    patch.set(ProducerChecks, "_check_guard", check_guard)


def _newest(transaction: Transaction) -> int:
    return transaction.producer_epoch


def is_reached(plan: SeedPlan) -> bool:
    return plan.transactional_producers > 0
