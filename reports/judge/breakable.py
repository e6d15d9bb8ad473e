"""Which anomalies a cell can show at all: the test cases of its JUnit suite. Pure.

`verdicts.json` has every check. A test case for something that cannot happen is a pass that says nothing. So an anomaly
is left out if no part of the cell can show it, or if its settings permit it.
tests/reports/test_reports_breakable.py shows that no anomaly is forgotten here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from reports.evidence.configuration import Configuration
from reports.judge.lawful import UNLAWFUL, rule
from reports.read.cell import Cell
from runlog.records.cell import CellKind
from runlog.records.workload import GROUP, SHARE

_Part = Callable[[Cell], bool]


def _has_readers(cell: Cell) -> bool:
    return bool(cell.record.workload.reader_groups)


def _has_group(cell: Cell) -> bool:
    return any(reader.mode == GROUP for reader in cell.record.workload.reader_groups)


def _has_share_group(cell: Cell) -> bool:
    return any(reader.mode == SHARE for reader in cell.record.workload.reader_groups)


def _has_copiers(cell: Cell) -> bool:
    return cell.record.workload.has_copiers


def _has_transactions(cell: Cell) -> bool:
    return _has_copiers(cell) or cell.record.workload.commit_interval_ms > 0


def _has_own_processes(cell: Cell) -> bool:
    return any(reader.own_processes for reader in cell.record.workload.reader_groups)


def _is_replicated(cell: Cell) -> bool:
    return (cell.record.topic.replication_factor or 1) > 1


def _is_chaos(cell: Cell) -> bool:
    return cell.kind is CellKind.CHAOS


def _compares_replicas(cell: Cell) -> bool:
    return _is_chaos(cell) and _is_replicated(cell)


_READERS: Final = (
    "lost_in_delivery", "read_above_hw", "dup_delivered", "redelivered", "nonmonotonic_poll", "poll_skip",
)  # fmt: skip
_GROUP: Final = (
    "redelivered_overdue", "dup_bound_exceeded", "commit_regression", "double_owner", "rebalance_storm",
    "stuck_consumer", "spurious_reset",
)  # fmt: skip
_COPIERS: Final = (
    "copy_missing", "copied_twice", "copy_reordered", "copy_corrupt", "copy_unexpected", "copy_passed_over",
    "copy_delivered_twice", "copy_gone", "conservation",
)  # fmt: skip
_TRANSACTIONS: Final = ("aborted_read", "precommitted_read", "torn_txn")
_REPLICAS: Final = ("isr_never_recovers", "two_leaders_ack", "truncate_below_hw", "acked_below_min_isr")
# Anomalies that need a part that not every cell has. All others concern every cell.
NEEDS: Final[Mapping[str, _Part]] = {
    **dict.fromkeys(_READERS, _has_readers),
    **dict.fromkeys(_GROUP, _has_group),
    **dict.fromkeys(("share_lost", "share_after_done", "share_over_limit"), _has_share_group),
    **dict.fromkeys(_COPIERS, _has_copiers),
    **dict.fromkeys(_TRANSACTIONS, _has_transactions),
    **dict.fromkeys(_REPLICAS, _is_replicated),
    "replica_divergence": _compares_replicas,
    "no_recovery": _is_chaos,
    "client_died": _has_own_processes,
}


def is_breakable(anomaly: str, cell: Cell, configuration: Configuration) -> bool:
    """Whether this cell can fail by this anomaly."""
    needs = NEEDS.get(anomaly)
    return (needs is None or needs(cell)) and rule(anomaly, configuration).lawful == UNLAWFUL
