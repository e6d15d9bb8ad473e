"""Anomalies of consumer groups and transactions, from what clients recorded about themselves (`history.jsonl`).

Pure. tests/reports/planted_cases.py plants a case of each rule.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Final

from reports.read.cell import Cell
from runlog.records.fault import WAIT, FaultPhase
from runlog.records.history import (
    Assigned,
    Balance,
    OffsetCommitted,
    Position,
    PositionReset,
    Revoked,
    TransactionEnded,
    TransactionOutcome,
)
from runlog.records.workload import EARLIEST, GROUP, READ_COMMITTED, SHARE, TOPIC

REBALANCES_PER_MINUTE_MAX: Final = 20
ALIVE_US: Final = 2_000_000  # a member that was active this recently cannot have been removed by the session timeout
COMMIT_SLACK_US: Final = 2_000_000  # a commit that is due may take this long
AUTO_COMMIT_INTERVAL_MS: Final = 5_000  # Kafka's default
STUCK_US: Final = 10_000_000
PARTITIONS_MAX: Final = 1 << 15  # A cell has at most so many: a partition is an int16 in the run log.


def group_findings(cell: Cell) -> dict[str, list[str]]:
    """A finding for each anomaly, also if there is no history."""
    return {
        "commit_regression": _commit_regressions(cell),
        "double_owner": _double_owners(cell),
        "rebalance_storm": _rebalance_storms(cell),
        "spurious_reset": _spurious_resets(cell),
        "stuck_consumer": [*_stuck_consumers(cell), *_left_behind(cell)],
        "client_died": _died(cell),
        "dup_bound_exceeded": _positions_before_commits(cell),
        "conservation": _unbalanced(cell),
    }


def transactions(cell: Cell) -> list[tuple[object, ...]]:
    """(cell, copier, copier_incarnation, txn, is_committed, asked_us) of transactions whose copier knows the
    outcome."""
    return [
        (
            cell.cell_id,
            line.copier,
            line.incarnation,
            line.number,
            int(line.outcome is TransactionOutcome.COMMITTED),
            line.asked_us,
        )
        for line in cell.history_lines
        if isinstance(line, TransactionEnded) and line.outcome is not TransactionOutcome.UNKNOWN
    ]


def early_readers(cell: Cell) -> list[tuple[int, int]]:
    """(reader, end partition) of readers that begin at the log's start. For them, records before their first offset
    count too.

    Members of a group get partitions that are added to the topic. Readers with fixed partitions do not.
    """
    workload, partitions = cell.record.workload, cell.record.topic.partitions
    planned = PARTITIONS_MAX if partitions is None else partitions * workload.topics
    return [
        (number, PARTITIONS_MAX if reader.mode in (GROUP, SHARE) else planned)
        for number, reader in enumerate(workload.reader_groups)
        if reader.start == EARLIEST
    ]


def several_topics(cell: Cell) -> list[tuple[int, int]]:
    """(topics, partitions of each), if records take turns between topics. A fault adds partitions to a topic only
    where it is the only one."""
    topics, partitions = cell.record.workload.topics, cell.record.topic.partitions
    return [(topics, partitions)] if topics > 1 and partitions else []


def whole_readers(cell: Cell) -> list[int]:
    """Numbers of the readers to which every record of the load is to come: they read the load's topic, from its start.

    A reader that begins at the end is owed what comes after it joined, and nothing tells when that was.
    """
    groups = cell.record.workload.reader_groups
    return [number for number, reader in enumerate(groups) if reader.start == EARLIEST and reader.reads == TOPIC]


def committed_readers(cell: Cell) -> list[int]:
    """Readers of a load in transactions that read committed records only. The harness sets isolation.level for each
    that says nothing."""
    workload = cell.record.workload
    if not workload.commit_interval_ms:
        return []
    return [
        number
        for number, reader in enumerate(workload.reader_groups)
        if reader.reads == TOPIC and reader.properties.get("isolation.level", READ_COMMITTED) == READ_COMMITTED
    ]


def clock_errors(cell: Cell) -> list[tuple[int, int, int | None]]:
    """(producer, its load host, how far that host's clock may be off, us), if producers ran on load hosts.

    None: no bound is known.
    """
    hosts = [host for host in cell.record.outcome.load_hosts if host.producers]
    return [
        (producer, number, None if host.clock is None or host.clock.problem else math.ceil(host.clock.error_us))
        for number, host in enumerate(hosts)
        for producer in host.producers
    ]


def commit_limits(cell: Cell) -> list[tuple[int, int]]:
    """(reader, limit_us): how long after its delivery a record's offset is committed at the latest.

    Only for groups whose members are processes, if no fault keeps brokers from accepting a commit. A frozen member
    commits nothing. When it wakes up, its commit is refused, because it is no member of the group any more.
    """
    kinds = {line.kind for line in cell.fault_lines} - {WAIT}
    if not all(kind.startswith("client_") for kind in kinds):
        return []
    limits: list[tuple[int, int]] = []
    for number, reader in enumerate(cell.record.workload.readers):
        if not reader.own_processes or reader.copies or reader.mode == SHARE:
            continue
        interval_ms = 0
        if reader.commit == "auto":
            interval_ms = int(reader.properties.get("auto.commit.interval.ms", AUTO_COMMIT_INTERVAL_MS))
        limits.append((number, interval_ms * 1_000 + COMMIT_SLACK_US + _longest_freeze_us(cell)))
    return limits


def _longest_freeze_us(cell: Cell) -> int:
    began: dict[str, int] = {}
    longest = 0
    for line in cell.fault_lines:
        if line.kind != "client_pause":
            continue
        if line.phase is FaultPhase.APPLIED:
            began[line.id] = line.t_us
        elif line.phase is FaultPhase.HEALED and line.id in began:
            longest = max(longest, line.t_us - began[line.id])
    return longest


def _commit_regressions(cell: Cell) -> list[str]:
    cases: list[str] = []
    last: dict[tuple[str, int], int] = {}
    for line in cell.history_lines:
        if not isinstance(line, OffsetCommitted | PositionReset):
            continue
        key = line.group, line.partition
        if isinstance(line, OffsetCommitted) and line.offset < last.get(key, line.offset):
            cases.append(f"group {key[0]} partition {key[1]}: {last[key]}, then {line.offset}")
        last[key] = line.offset
    return cases


def _double_owners(cell: Cell) -> list[str]:
    """Two members that owned a partition in one generation at the same time, or one that got it too early."""
    cases: list[str] = _given_too_early(cell)
    owners: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)  # group, partition -> member -> generation
    for line in cell.history_lines:
        if not isinstance(line, Assigned | Revoked):
            continue
        for partition in line.partitions:
            held = owners[line.group, partition]
            if isinstance(line, Revoked):
                held.pop(line.member, None)
                continue
            others = [other for other, its in held.items() if other != line.member and its == line.generation >= 0]
            if others:
                cases.append(
                    f"group {line.group} partition {partition} generation {line.generation}: {line.member} while "
                    f"{others[0]} held it"
                )
            held[line.member] = line.generation
    return cases


def _given_too_early(cell: Cell) -> list[str]:
    """A partition that a member got before its owner had revoked it, although the owner was alive and not hindered.

    In every group protocol the owner is told first, and the next member gets the partition after the owner has answered
    (KIP-429, KIP-848). If an owner was frozen, killed or silent, the coordinator may have removed it. Such an owner is
    left out.
    """
    hindered_us = _hindered_us(cell)
    cases: list[str] = []
    seen_us: dict[tuple[str, str], int] = {}
    held: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)  # owners with their generation
    overtaken: dict[tuple[str, int, str], str] = {}  # group, partition, owner -> who got it in the meantime
    for line in cell.history_lines:
        if not isinstance(line, Assigned | Revoked | OffsetCommitted | Position):
            continue
        group, member = line.group, line.member
        for partition in line.partitions if isinstance(line, Assigned | Revoked) else ():
            owners = held[group, partition]
            if isinstance(line, Revoked):
                owners.pop(member, None)
                if next_owner := overtaken.pop((group, partition, member), None):
                    cases.append(f"group {group} partition {partition}: {next_owner} before {member} let go of it")
            elif isinstance(line, Assigned):
                for owner, its in owners.items():
                    if owner == member or its == line.generation >= 0:  # the rule above reports these
                        continue
                    is_well = line.t_us < hindered_us.get(owner, line.t_us + 1)
                    if is_well and line.t_us - seen_us.get((group, owner), -ALIVE_US) < ALIVE_US:
                        overtaken[group, partition, owner] = member
                owners[member] = line.generation
                overtaken.pop((group, partition, member), None)
        seen_us[group, member] = line.t_us
    return cases


def _hindered_us(cell: Cell) -> dict[str, int]:
    """Member -> when the first fault on it began."""
    return {
        member: line.t_us
        for line in reversed(cell.fault_lines)
        if line.kind in ("client_pause", "client_kill", "client_twin") and line.phase is FaultPhase.APPLIED
        for member in line.resolved
    }


def _rebalance_storms(cell: Cell) -> list[str]:
    """More generations of a group within a minute than the limit."""
    first_seen: dict[str, dict[int, int]] = defaultdict(dict)
    for line in cell.history_lines:
        if isinstance(line, Assigned):
            first_seen[line.group].setdefault(line.generation, line.t_us)
    cases: list[str] = []
    for group, generations in first_seen.items():
        times = sorted(generations.values())
        most = max((sum(t <= other < t + 60_000_000 for other in times) for t in times), default=0)
        if most > REBALANCES_PER_MINUTE_MAX:
            cases.append(f"group {group}: {most} generations within a minute")
    return cases


def _spurious_resets(cell: Cell) -> list[str]:
    return [
        f"group {line.group} partition {line.partition}: position set to {line.offset} without a cause"
        for line in cell.history_lines
        if isinstance(line, PositionReset) and not line.cause
    ]


def _stuck_consumers(cell: Cell) -> list[str]:
    """A member whose position did not change although there were records to read."""
    cases: list[str] = []
    since: dict[tuple[str, str, int], tuple[int, int]] = {}
    told: set[tuple[str, str, int]] = set()
    for line in cell.history_lines:
        if not isinstance(line, Position):
            continue
        key = line.group, line.member, line.partition
        began = since.get(key)
        if began is None or began[0] != line.offset or line.end_offset is None or line.end_offset <= line.offset:
            since[key] = (line.offset, line.t_us)
        elif line.t_us - began[1] >= STUCK_US and key not in told:
            told.add(key)
            cases.append(
                f"group {key[0]} member {key[1]} partition {key[2]}: at offset {line.offset} for 10 s and more"
            )
    return cases


def _left_behind(cell: Cell) -> list[str]:
    """The harness waited for the groups, but they did not get all records in time."""
    found = cell.record.outcome.members
    return [str(found.missing)] if found.caught_up is False else []


def _died(cell: Cell) -> list[str]:
    return list(cell.record.outcome.members.died or ())


def _positions_before_commits(cell: Cell) -> list[str]:
    """A member that begins below the group's committed offset. It delivers committed records again."""
    cases: list[str] = []
    committed: dict[tuple[str, int], int] = {}
    fresh: set[tuple[str, str, int]] = set()  # assigned, position not seen yet
    for line in cell.history_lines:
        match line:
            case Assigned():
                fresh |= {(line.group, line.member, partition) for partition in line.partitions}
            case Position():
                key = line.group, line.member, line.partition
                known = committed.get((line.group, line.partition), 0)
                if key in fresh and line.offset < known:
                    cases.append(
                        f"group {line.group} partition {line.partition}: {line.member} began at {line.offset}, "
                        f"{known} was committed"
                    )
                fresh.discard(key)
            case OffsetCommitted() | PositionReset():
                committed[line.group, line.partition] = line.offset
    return cases


def _unbalanced(cell: Cell) -> list[str]:
    totals = [line.total for line in cell.history_lines if isinstance(line, Balance)]
    return [f"{total} instead of {totals[0]}" for total in totals[1:] if total != totals[0]]
