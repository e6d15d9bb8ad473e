"""Which records a fault must damage, said from journals, log dumps and the wire, without looking at the outcome.

Pure: takes the event lines of one cell, gives offset intervals. `analyse.py` turns them into identities through the
acknowledgements (loss) or the final log (duplicates, order). tests/reports/test_reports_predict.py shows each rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from reports.evidence import (
    NEVER_US,
    WITHHELD,
    Interval,
    appended,
    batch_key,
    deletions,
    events_of,
    gone_with_the_topic,
    last_life,
    succeeded,
    wire_lines,
)
from reports.model import Cell, Json
from reports.predict_answers import lost_by_answers
from reports.predict_order import reordered_intervals

LOG_DUMP = "log_dump"  # the harness read the dead leader's files: no journal told what was truncated
WIRE = "wire"  # what a deposed leader answered for, by the proxies; nobody could read its files in time
DISK = "disk"  # source of a truncation that a power loss made, not a leader


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    intervals: tuple[Interval, ...]
    how: dict[str, str]  # kind -> sentence


def predict(cell: Cell) -> Prediction:
    """Intervals that must be lost, duplicated or reordered, and how each was found out."""
    lost, how_lost = _lost(cell)
    deleted, gone = deletions(cell), gone_with_the_topic(cell)
    if deleted:
        how_lost += f"; and those below the log start offset after {len(deleted)} deletion(s) of records"
    if gone:
        how_lost += "; and all that was acknowledged before the topic was created anew"
    at_the_end = last_life(cell)
    duplicated, how_duplicated = _duplicated(at_the_end)
    reordered, how_reordered = reordered_intervals(at_the_end, removed=lost)
    return Prediction(
        intervals=(*lost, *deleted, *gone, *duplicated, *reordered),
        how={"lost": how_lost, "duplicated": how_duplicated, "reordered": how_reordered},
    )


# Loss: what a truncation removed although it had been acknowledged.


def _lost(cell: Cell) -> tuple[list[Interval], str]:
    truncations = events_of(cell, "truncated")
    leader_changes = events_of(cell, "became_leader", "leader")
    journal = appended(cell)
    saved = _saved_elsewhere(journal, truncations)
    intervals: list[Interval] = []
    without_cause = 0
    for event in truncations:
        first, end = int(event["to_offset"]), int(event["from_offset"])
        if event.get("source") == DISK:
            first = max(first, _taken_up_from(leader_changes, event))
        if first >= end:
            continue
        if event.get("source") == WIRE:
            intervals += lost_by_answers(cell, event)
            continue
        partition, epoch = int(event["partition"]), int(event.get("leader_epoch", -1))
        own = [item for item in journal if _touches(item, partition, first, end)]
        if any(int(item["leader_epoch"]) == epoch for item in own):
            intervals += _by_appends(own, partition, first, end, epoch, saved)
            continue
        cause_us = leader_change_us(leader_changes, partition, epoch)
        if cause_us is None:
            without_cause += 1
            cause_us = int(event["t_us"])
        elif event.get("source") == LOG_DUMP:
            cause_us = _between_death_and_change(cell, event, cause_us)
        intervals.append(
            Interval(kind="lost", partition=partition, from_offset=first, end_offset=end, before_us=cause_us)
        )
    if not truncations:
        return [], "no replica truncated its log"
    sources = " and ".join(sorted({str(event.get("source", "journal")) for event in truncations}))
    how = f"acknowledged sends at the offsets that {len(truncations)} truncation(s) removed ({sources}), " + (
        "acknowledged after the append that was removed and before a later leader appended there"
        if journal
        else "answered for by a leader that was none any more"
        if sources == WIRE
        else "acknowledged before the leader change that caused each, by time of death and probe"
    )
    if without_cause:
        how += f"; {without_cause} had no recorded leader change, their own time stands in"
    return intervals, how


def _touches(append: Json, partition: int, first: int, end: int) -> bool:
    return (
        int(append["partition"]) == partition
        and int(append["base_offset"]) < end
        and int(append["last_offset"]) >= first
    )


def _by_appends(
    appends: list[Json], partition: int, first: int, end: int, epoch: int, saved: set[tuple[str, int, int]]
) -> list[Interval]:
    """What the removed appends put at [first, end), each stretch with the time in which an answer must mean them.

    An answer for an offset means the removed append if it came after that append and before a leader of a later epoch
    appended there. A leader that did not know that it was none any more (a zombie) may append after its successor did:
    then all answers from that moment on are its own.
    """
    found: list[Interval] = []
    later = [item for item in appends if int(item["leader_epoch"]) > epoch]
    for item in appends:
        if int(item["leader_epoch"]) != epoch or batch_key(item) in saved:
            continue
        low, high = max(first, int(item["base_offset"])), min(end, int(item["last_offset"]) + 1)
        old_us = int(item["t_us"])
        marks = {low, high}
        for other in later:
            marks |= {m for m in (int(other["base_offset"]), int(other["last_offset"]) + 1) if low < m < high}
        edges = sorted(marks)
        for begin, stop in pairwise(edges):
            new_us = min(
                (int(o["t_us"]) for o in later if int(o["base_offset"]) <= begin <= int(o["last_offset"])),
                default=NEVER_US,
            )
            found.append(
                Interval(
                    kind="lost",
                    partition=partition,
                    from_offset=begin,
                    end_offset=stop,
                    after_us=old_us,
                    before_us=new_us if new_us > old_us else NEVER_US,
                )
            )
    return found


def _saved_elsewhere(journal: list[Json], truncations: list[Json]) -> set[tuple[str, int, int]]:
    """Batches of which another append stayed: the client had sent them twice."""
    removed = [
        (int(e["partition"]), int(e.get("leader_epoch", -1)), int(e["to_offset"]), int(e["from_offset"]))
        for e in truncations
        if e.get("source") != DISK
    ]
    return {
        batch_key(item)
        for item in journal
        if not any(
            int(item["partition"]) == partition
            and int(item["leader_epoch"]) == epoch
            and int(item["last_offset"]) >= first
            and int(item["base_offset"]) < end
            for partition, epoch, first, end in removed
        )
    }


def _taken_up_from(leader_changes: Iterable[Json], event: Json) -> int:
    """A disk that forgot loses nothing that the next leader has: only what lies beyond that one's log end."""
    later = [
        change
        for change in leader_changes
        if change.get("kind") == "became_leader"
        and change.get("partition") == event["partition"]
        and int(change.get("t_us", 0)) > int(event["t_us"])
    ]
    first = min(later, key=lambda change: int(change["t_us"]), default=None)
    return NEVER_US if first is None else int(first.get("log_end_offset", 0))


def _between_death_and_change(cell: Cell, event: Json, change_us: int) -> int:
    """Until when an answer came from the dead leader, where only a probe saw the change of leaders.

    A probe sees the new leader some time after it began to answer, and what was sent again may lie at the same offsets
    there. The dead leader's last answers arrive within moments of its death; the next leader is elected no sooner than
    the session timeout. So the middle between the two parts them, whatever the delay of the probe.
    """
    deaths = [
        int(line["t_us"])
        for line in cell.events
        if line.get("kind") == "killed" and line.get("broker") == event.get("broker") and int(line["t_us"]) < change_us
    ]
    return (max(deaths) + change_us) // 2 if deaths else change_us


def leader_change_us(leader_changes: Iterable[Json], partition: int, epoch_of_records: int) -> int | None:
    """When the first leader of a later epoch than the truncated records' took over, by journal or by probe."""
    times = [
        int(event["t_us"])
        for event in leader_changes
        if event.get("partition") == partition and int(event.get("leader_epoch", -1)) > epoch_of_records
    ]
    return min(times, default=None)


# Duplicates: a batch that was appended, whose response was withheld, and which was appended again.


def is_idempotent(cell: Cell) -> bool:
    value = cell.effective_client.get("enable.idempotence")
    return str(value).strip().lower() == "true"


def _duplicated(cell: Cell) -> tuple[list[Interval], str]:
    wire = wire_lines(cell)
    dropped = [line for line in wire if line.get("outcome") in WITHHELD and succeeded(line)]
    if not dropped:
        return [], "no response to an appended Produce request was withheld"
    journal = appended(cell)
    appended_at: dict[tuple[int, int], set[int]] = defaultdict(set)
    for event in journal:
        appended_at[(int(event["partition"]), int(event.get("crc", -1)))].add(int(event["base_offset"]))
    successes: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    attempts: dict[tuple[str, int, int], int] = defaultdict(int)
    for line in wire:
        attempts[batch_key(line)] += 1
        if succeeded(line):
            successes[batch_key(line)].add(int(line["base_offset"]))
    idempotent = is_idempotent(cell)
    intervals: list[Interval] = []
    for line in dropped:
        key = batch_key(line)
        if journal and (attempts[key] > 1 or len(appended_at[(key[1], key[2])]) > 1):
            again = len(appended_at[(key[1], key[2])]) > 1
        elif attempts[key] > 1:
            # A broker that recognised the retry answers with the offset of the first append.
            again = len(successes[key]) > 1
        else:
            # The retry came after the wire log had ended, or its records came back in other batches (librdkafka without
            # idempotence puts them back into its queue): nobody could recognise them.
            again = not idempotent
        if again:
            base = int(line["base_offset"])
            intervals.append(
                Interval(
                    kind="duplicated",
                    partition=key[1],
                    from_offset=base,
                    end_offset=base + int(line.get("records", 0)),
                )
            )
    refused = len(events_of(cell, "duplicate_sequence"))
    how = f"batches of {len(dropped)} Produce exchange(s) whose response was withheld after the append (wire)"
    how += (
        ", of which the journal shows the same CRC at two offsets, or whose records came back in other batches"
        if journal
        else ", unless the retry was answered with the first offset"
    )
    if refused:
        how += f"; the brokers recognised {refused} repeated sequence(s) and appended none of them"
    return intervals, how
