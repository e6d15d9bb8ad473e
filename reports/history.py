"""Anomalies of consumer groups and transactions, from what clients wrote down about themselves (`history.jsonl`).

Lines that count here, each with t_us:
- assigned{group, member, generation, partitions}, revoked{group, member, partitions}
- committed{group, partition, offset}, position{group, member, partition, offset, end_offset?}, reset{group, partition,
  offset, cause}
- transaction{copier, incarnation, number, outcome: committed|aborted|unknown, asked_us} as the copier was told;
  balance{total}
Pure. Each rule is planted in tests/reports/planted_cases.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from reports.model import Cell, Json

REBALANCES_PER_MINUTE_MAX: Final = 20
ALIVE_US: Final = 2_000_000  # a member that did something so recently was not let go for its silence
COMMIT_SLACK_US: Final = 2_000_000  # a commit that is due may take so long
AUTO_COMMIT_INTERVAL_MS: Final = 5_000  # Kafka's default
STUCK_US: Final = 10_000_000
PARTITIONS_MAX: Final = 1 << 15  # of a cell: a partition is an int16 in the run log


def _lines(cell: Cell, *kinds: str) -> list[Json]:
    return [line for line in cell.history if line.get("kind") in kinds]


def group_findings(cell: Cell) -> dict[str, list[str]]:
    """By anomaly; all of them, also without any history."""
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
    """(cell, copier, copier_incarnation, txn, is_committed, asked_us) of those whose copier knows the outcome."""
    return [
        (
            cell.cell_id,
            int(line["copier"]),
            int(line["incarnation"]),
            int(line["number"]),
            int(line["outcome"] == "committed"),
            int(line["asked_us"]),
        )
        for line in _lines(cell, "transaction")
        if line.get("outcome") in ("committed", "aborted")
    ]


def has_copiers(cell: Cell) -> bool:
    return any(reader.get("copies") for reader in cell.readers)


def early_readers(cell: Cell) -> list[tuple[int, int]]:
    """(reader, end partition) of readers that begin at the log's start: what lies before their first offset is theirs.

    Members of a group get partitions that are added to the topic; who has fixed partitions does not.
    """
    workload = cell.part("workload")
    readers: Sequence[Json] = cell.readers
    if not readers and workload.get("consumers"):
        readers = [{"name": "tail"}]
    partitions, topics = cell.part("topic").get("partitions"), workload.get("topics", 1)
    planned = partitions * topics if isinstance(partitions, int) and isinstance(topics, int) else PARTITIONS_MAX
    return [
        (number, PARTITIONS_MAX if reader.get("mode") == "group" else planned)
        for number, reader in enumerate(readers)
        if reader.get("start", "earliest") == "earliest"
    ]


def commit_limits(cell: Cell) -> list[tuple[int, int]]:
    """(reader, limit_us): how long after its delivery a record's offset is committed at the latest.

    Only for groups whose members are processes, and where no fault keeps brokers from taking a commit. A member that is
    frozen commits nothing meanwhile, and is refused when it wakes up as none of its group any more.
    """
    kinds = {str(line.get("kind")) for line in cell.faults} - {"wait"}
    if not all(kind.startswith("client_") for kind in kinds):
        return []
    limits: list[tuple[int, int]] = []
    for number, reader in enumerate(cell.readers):
        if not reader.get("own_processes") or reader.get("copies"):
            continue
        interval_ms = 0
        if reader.get("commit", "auto") == "auto":
            properties = reader.get("properties") or {}
            interval_ms = int(properties.get("auto.commit.interval.ms", AUTO_COMMIT_INTERVAL_MS))
        limits.append((number, interval_ms * 1_000 + COMMIT_SLACK_US + _longest_freeze_us(cell)))
    return limits


def _longest_freeze_us(cell: Cell) -> int:
    began: dict[str, int] = {}
    longest = 0
    for line in cell.faults:
        if line.get("kind") != "client_pause":
            continue
        if line.get("phase") == "applied":
            began[str(line["id"])] = int(line["t_us"])
        elif line.get("phase") == "healed" and str(line["id"]) in began:
            longest = max(longest, int(line["t_us"]) - began[str(line["id"])])
    return longest


def _key(line: Json) -> tuple[str, int]:
    return str(line.get("group")), int(line["partition"])


def _commit_regressions(cell: Cell) -> list[str]:
    cases: list[str] = []
    last: dict[tuple[str, int], int] = {}
    for line in _lines(cell, "committed", "reset"):
        key, offset = _key(line), int(line["offset"])
        if line["kind"] == "committed" and offset < last.get(key, offset):
            cases.append(f"group {key[0]} partition {key[1]}: {last[key]}, then {offset}")
        last[key] = offset
    return cases


def _double_owners(cell: Cell) -> list[str]:
    """Two members that owned a partition in one generation at the same time, or one that got it too early."""
    cases: list[str] = _given_too_early(cell)
    owners: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)  # group, partition -> member -> generation
    for line in _lines(cell, "assigned", "revoked"):
        group, member = str(line.get("group")), str(line.get("member"))
        for partition in line.get("partitions", ()):
            held = owners[group, int(partition)]
            if line["kind"] == "revoked":
                held.pop(member, None)
                continue
            generation = int(line.get("generation", -1))
            others = [other for other, its in held.items() if other != member and its == generation >= 0]
            if others:
                cases.append(
                    f"group {group} partition {partition} generation {generation}: {member} while {others[0]} held it"
                )
            held[member] = generation
    return cases


def _given_too_early(cell: Cell) -> list[str]:
    """A partition that a member got before its owner, which was alive and not hindered, had let go of it.

    In every protocol of groups the owner is told first, and the next one gets the partition after its answer (KIP-429,
    KIP-848). One that was frozen, killed or silent may have been let go by the coordinator, and is left out.
    """
    hindered_us = {
        str(member): int(line["t_us"])
        for line in reversed(cell.faults)  # the first fault on each
        if line.get("kind") in ("client_pause", "client_kill", "client_twin") and line.get("phase") == "applied"
        for member in line.get("resolved", ())
    }
    cases: list[str] = []
    seen_us: dict[tuple[str, str], int] = {}
    held: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)  # owners with their generation
    overtaken: dict[tuple[str, int, str], str] = {}  # group, partition, owner -> who got it meanwhile
    for line in _lines(cell, "assigned", "revoked", "committed", "position"):
        group, member, t_us = str(line.get("group")), str(line.get("member")), int(line["t_us"])
        for partition in line.get("partitions", ()):
            owners = held[group, int(partition)]
            if line["kind"] == "revoked":
                owners.pop(member, None)
                if next_owner := overtaken.pop((group, int(partition), member), None):
                    cases.append(f"group {group} partition {partition}: {next_owner} before {member} let go of it")
            elif line["kind"] == "assigned":
                generation = int(line.get("generation", -1))
                for owner, its in owners.items():
                    if owner == member or its == generation >= 0:  # of one generation: told already
                        continue
                    is_well = t_us < hindered_us.get(owner, t_us + 1)
                    if is_well and t_us - seen_us.get((group, owner), -ALIVE_US) < ALIVE_US:
                        overtaken[group, int(partition), owner] = member
                owners[member] = generation
                overtaken.pop((group, int(partition), member), None)
        seen_us[group, member] = t_us
    return cases


def _rebalance_storms(cell: Cell) -> list[str]:
    """More generations of a group within a minute than the limit."""
    first_seen: dict[str, dict[int, int]] = defaultdict(dict)
    for line in _lines(cell, "assigned"):
        first_seen[str(line.get("group"))].setdefault(int(line.get("generation", -1)), int(line["t_us"]))
    cases: list[str] = []
    for group, generations in first_seen.items():
        times = sorted(generations.values())
        most = max((sum(t <= other < t + 60_000_000 for other in times) for t in times), default=0)
        if most > REBALANCES_PER_MINUTE_MAX:
            cases.append(f"group {group}: {most} generations within a minute")
    return cases


def _spurious_resets(cell: Cell) -> list[str]:
    return [
        f"group {line.get('group')} partition {line['partition']}: position set to {line['offset']} without a cause"
        for line in _lines(cell, "reset")
        if not line.get("cause")
    ]


def _stuck_consumers(cell: Cell) -> list[str]:
    """A member whose position stood still while there was something to read."""
    cases: list[str] = []
    since: dict[tuple[str, str, int], tuple[int, int]] = {}
    told: set[tuple[str, str, int]] = set()
    for line in _lines(cell, "position"):
        key = (str(line.get("group")), str(line.get("member")), int(line["partition"]))
        offset, t_us = int(line["offset"]), int(line["t_us"])
        began = since.get(key)
        if began is None or began[0] != offset or int(line.get("end_offset", offset)) <= offset:
            since[key] = (offset, t_us)
        elif t_us - began[1] >= STUCK_US and key not in told:
            told.add(key)
            cases.append(f"group {key[0]} member {key[1]} partition {key[2]}: at offset {offset} for 10 s and more")
    return cases


def _members(cell: Cell) -> Json:
    found = cell.outcome.get("members")
    return found if isinstance(found, dict) else {}


def _left_behind(cell: Cell) -> list[str]:
    """The harness waited for the groups to get everything, and in vain."""
    found = _members(cell)
    return [str(found.get("missing"))] if found.get("caught_up") is False else []


def _died(cell: Cell) -> list[str]:
    return [str(line) for line in _members(cell).get("died") or ()]


def _positions_before_commits(cell: Cell) -> list[str]:
    """A member that begins below what its group had committed delivers again more than was uncommitted."""
    cases: list[str] = []
    committed: dict[tuple[str, int], int] = {}
    fresh: set[tuple[str, str, int]] = set()  # assigned, position not seen yet
    for line in _lines(cell, "assigned", "committed", "reset", "position"):
        group, member = str(line.get("group")), str(line.get("member"))
        if line["kind"] == "assigned":
            fresh |= {(group, member, int(partition)) for partition in line.get("partitions", ())}
        elif line["kind"] == "position":
            key = (group, member, int(line["partition"]))
            if key in fresh and int(line["offset"]) < committed.get((group, key[2]), 0):
                cases.append(
                    f"group {group} partition {key[2]}: {member} began at {line['offset']}, "
                    f"{committed[group, key[2]]} was committed"
                )
            fresh.discard(key)
        else:
            committed[_key(line)] = int(line["offset"])
    return cases


def _unbalanced(cell: Cell) -> list[str]:
    totals = [(int(line["total"]), int(line["t_us"])) for line in _lines(cell, "balance")]
    return [f"{total} instead of {totals[0][0]}" for total, _ in totals[1:] if total != totals[0][0]]
