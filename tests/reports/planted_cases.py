"""Run logs with planted anomalies of every kind: what the checker must find, to the record, and nothing else.

A case is one cell of some hundred records in which everything is in order, and into which a few plants are put, each
into records of its own. Records come in batches of several producers and incarnations, with holes between them and
offsets up to 2^40; two readers get them in polls of many; streams lie in several files. A plant notes in `truth` all
that its damage is by the rules of `reports/anomalies.py`: what a poll jumps over is passed over as well if it never
comes. Cases are drawn from a seed.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runlog.parquet import write_part
from runlog.schema import STREAMS, SendStatus
from tests.reports import planted_copies, planted_doubts

Identity = tuple[int, int, int]
START_US, STEP_US, ACK_AFTER_US = 1_000_000, 20_000, 4_000
SPACING = 8  # records between two plants
DEFAULTS = {"reader": 0}  # of columns that no plant is about
FAR_OFFSET = 200_000  # of events that concern no record of the case
BASE_OFFSETS = (0, 0, 37, 1 << 20, (1 << 40) - 1_000)  # where a log begins
PRODUCERS_PER_PARTITION = 3
SECOND_READS_AT_US = 430_000_000
ENDED_US = 2_000_000_000
LATE_US = 400_000_000
LATE_PRODUCERS = 500  # from here on; 100 and on are those of partitions that groups have for themselves


@dataclass(slots=True, kw_only=True)
class Record:
    """One record on its way; what a plant changes."""

    producer: int
    seq: int
    partition: int
    offset: int
    sent_us: int
    acked_us: int
    incarnation: int = 0
    status: int = SendStatus.ACKED
    acked_offset: int | None = None  # None: where it is
    acked_partition: int | None = None
    intended_us: int | None = None  # None: when it was sent
    is_sent: bool = True
    in_log: bool = True
    log_crc_ok: int = 1
    delivered: bool = True
    is_let_go: bool = False  # acks=0: its outcome is unknown, without an error

    @property
    def identity(self) -> Identity:
        return self.producer, self.incarnation, self.seq


@dataclass(slots=True, kw_only=True)
class Case:
    """`late_polls` come after all others, in order: (offset, record) of the partition of the record."""

    cell_id: str
    rng: random.Random
    records: dict[int, list[Record]] = field(default_factory=dict)  # by partition, in order of offset
    copies: list[tuple[Record, int]] = field(default_factory=list)  # further places in the log
    late_polls: list[tuple[Record, int]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    outcome: dict[str, Any] = field(default_factory=dict)
    batches: list[tuple[int, int, int, int]] = field(default_factory=list)  # partition, first, last, epoch
    group_polls: list[tuple[Record, int, int]] = field(default_factory=list)  # record, consumer, time: of reader 1
    wants_copies: bool = False
    uncopied: set[Identity] = field(default_factory=set)
    more_copies: list[planted_copies.Copy] = field(default_factory=list)
    own_transaction: dict[Identity, int] = field(default_factory=dict)  # of the regular copy
    unaudited: set[Identity] = field(default_factory=set)  # copies that the reader of copies does not get
    audited_again: set[Identity] = field(default_factory=set)
    audited_beside: set[Identity] = field(default_factory=set)  # again, one offset further
    read_aborted: set[Identity] = field(default_factory=set)
    corrupt_copies: set[Identity] = field(default_factory=set)
    more_answers: list[tuple[Record, int, int]] = field(default_factory=list)  # record, status, time
    foreign: int = 0
    corrupt_batches: list[str] = field(default_factory=list)
    wrong_end: str = ""  # what is wrong with the end offsets: low, absent, count
    doubts: set[str] = field(default_factory=set)  # checks of the evidence that must not hold
    parts: int = 1  # files of each stream
    whole: set[int] = field(default_factory=set)  # partitions that plants may cut at an end
    truth: dict[str, set[Identity]] = field(default_factory=lambda: defaultdict(set))
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    plants: list[str] = field(default_factory=list)
    free: list[Record] = field(default_factory=list)  # where the next plants go
    epochs_of: dict[int, str] = field(default_factory=dict)  # partition -> the plant whose leader epochs it has

    def take(self) -> Record:
        return self.free.pop()

    def take_with_epochs(self, plant: str) -> Record | None:
        """In a partition whose leader epochs no other plant has chosen: an older epoch of one is a newer of another."""
        for record in reversed(self.free):
            if self.epochs_of.setdefault(record.partition, plant) == plant:
                self.free.remove(record)
                return record
        return None

    def tail_offset(self, partition: int) -> int:
        used = [record.offset for record in self.records[partition]]
        used += [offset for record, offset in self.copies if record.partition == partition]
        return max(used) + 1

    def neighbour(self, record: Record) -> Record:
        """The next record of the partition."""
        row = self.records[record.partition]
        return row[row.index(record) + 1]

    def event(self, kind: str, t_us: int, **values: Any) -> None:
        self.events.append({"t_us": t_us, "kind": kind, "source": "journal", "topic": "t", **values})

    def note(self, name: str, *records: Record) -> None:
        self.truth[name] |= {record.identity for record in records}


# --- plants on records ------------------------------------------------------------------------------------------------


def lost(case: Case) -> None:
    record = case.take()
    record.in_log = record.delivered = False
    record.acked_offset = record.offset
    case.note("lost", record)


def lost_unacked(case: Case) -> None:
    """As with acks=0: the client let go of it, and nobody said that it arrived."""
    record = case.take()
    record.status, record.acked_offset, record.is_let_go = SendStatus.UNKNOWN, -1, True
    record.in_log = record.delivered = False
    case.note("lost_unacked", record)


def recovered(case: Case) -> None:
    record = case.take()
    record.status, record.acked_offset = SendStatus.UNKNOWN, -1
    case.note("recovered", record)


def phantom(case: Case) -> None:
    record = case.take()
    record.status, record.acked_offset = SendStatus.FAILED, -1
    case.note("phantom", record)


def failed_and_absent(case: Case) -> None:
    """Nothing is wrong with a failure that is none."""
    record = case.take()
    record.status, record.acked_offset = case.rng.choice((SendStatus.FAILED, SendStatus.UNKNOWN)), -1
    record.in_log = record.delivered = False


def unexpected(case: Case) -> None:
    record = case.take()
    record.is_sent = False
    case.note("unexpected", record)


def corrupt(case: Case) -> None:
    record = case.take()
    record.log_crc_ok = 0
    case.note("corrupt", record)


def duplicated(case: Case) -> None:
    record = case.take()
    for _ in range(case.rng.randint(1, 2)):
        offset = case.tail_offset(record.partition)
        case.copies.append((record, offset))
        case.late_polls.append((record, offset))
    case.note("duplicated", record)


def reordered(case: Case) -> None:
    """Neighbours of one producer and partition change places in the log; the earlier one is late."""
    record = case.take()
    after = case.neighbour(record)
    record.offset, after.offset = after.offset, record.offset
    row = case.records[record.partition]
    place = row.index(record)
    row[place], row[place + 1] = after, record
    record.acked_us = after.acked_us = max(record.acked_us, after.acked_us) + STEP_US
    case.note("reordered", record)


def offset_reused(case: Case) -> None:
    """Two acknowledgements tell each other's offset."""
    record = case.take()
    after = case.neighbour(record)
    record.acked_offset, after.acked_offset = after.offset, record.offset
    record.acked_us = after.acked_us = max(record.acked_us, after.acked_us) + STEP_US
    case.note("offset_reused", record, after)


def send_realtime_violation(case: Case) -> None:
    """A producer of its own, whose one record is sent last and found where the place of another one had been."""
    record = case.take()
    row = case.records[record.partition]
    late = Record(
        producer=LATE_PRODUCERS + len(case.plants),
        seq=0,
        partition=record.partition,
        offset=record.offset,
        sent_us=LATE_US,
        acked_us=LATE_US + ACK_AFTER_US,
    )
    row[row.index(record)] = late  # the record itself was never sent: a hole in the sequence is no damage
    case.note("send_realtime_violation", late)


def dup_delivered(case: Case) -> None:
    record = case.take()
    case.late_polls.append((record, record.offset))
    case.note("dup_delivered", record)
    case.note("redelivered", record)
    case.note("nonmonotonic_poll", record)


def lost_in_delivery(case: Case) -> None:
    record = case.take()
    record.delivered = False
    case.note("lost_in_delivery", record)
    case.note("poll_skip", record)


def poll_skip(case: Case) -> None:
    """It comes after all, but late."""
    record = case.take()
    record.delivered = False
    case.late_polls.append((record, record.offset))
    case.note("poll_skip", record)
    case.note("nonmonotonic_poll", record)


def read_above_hw(case: Case) -> None:
    """The consumer got a record that is gone from the log; nobody was told that it was safe."""
    record = case.take()
    record.status, record.acked_offset = SendStatus.UNKNOWN, -1
    record.in_log = False
    case.note("read_above_hw", record)


def acked_below_min_isr(case: Case) -> None:
    record = case.take_with_epochs("acked_below_min_isr")
    if record is None:
        return
    where = {"partition": record.partition, "leader_epoch": 1}
    case.event("isr_changed", record.sent_us + 100, broker=1, isr=[1], **where)
    case.event("appended", record.sent_us + 200, broker=1, base_offset=record.offset, last_offset=record.offset,
               producer_id=-1, producer_epoch=-1, crc=record.offset, client_id="p", **where)  # fmt: skip
    case.event("isr_changed", record.acked_us + 500, broker=1, isr=[1, 2, 3], **where)
    case.note("acked_below_min_isr", record)


def two_leaders_ack(case: Case) -> None:
    """In a partition of its own kind of epochs: the newer leader appended far behind, then the older one here."""
    record = case.take_with_epochs("two_leaders_ack")
    if record is None:
        return
    far = FAR_OFFSET + record.offset
    common = {"partition": record.partition, "producer_id": -1, "producer_epoch": -1, "client_id": "p"}
    case.event("appended", record.sent_us + 50, broker=2, leader_epoch=1000 + record.offset, base_offset=far,
               last_offset=far, crc=far, **common)  # fmt: skip
    case.event("appended", record.sent_us + 60, broker=1, leader_epoch=0, base_offset=record.offset,
               last_offset=record.offset, crc=record.offset, **common)  # fmt: skip
    case.note("two_leaders_ack", record)


def unseen_pending(case: Case) -> None:
    """The tail of one partition is not delivered; only once a case, and before copies and late polls are planted."""
    if case.plants or case.truth["unseen_pending"]:
        return
    partition = case.rng.choice(sorted(case.whole))
    for record in case.records[partition][-case.rng.randint(1, 4) :]:
        record.delivered = False
        case.note("unseen_pending", record)
    case.free = [record for record in case.free if record.partition != partition]


# --- plants on events -------------------------------------------------------------------------------------------------


def epoch_regression(case: Case) -> None:
    if case.wrong_end or case.foreign:
        return  # these want batches that agree with the log
    first = FAR_OFFSET + 10 * len(case.plants)
    partition = 50 + len(case.plants)
    case.batches += [(partition, first, first + 4, 5), (partition, first + 5, first + 9, 4)]
    case.counts["epoch_regression"] += 1


def hw_regression(case: Case) -> None:
    partition = 50 + len(case.plants)
    for t_us, offset in ((1, 500), (2, 900), (3, 700)):
        case.event("high_watermark", t_us, partition=partition, broker=1, offset=offset)
    case.counts["hw_regression"] += 1


def truncate_below_hw(case: Case) -> None:
    partition = 50 + len(case.plants)
    case.event("high_watermark", 10, partition=partition, broker=1, offset=900)
    case.event("truncated", 20, partition=partition, broker=2, leader_epoch=1, from_offset=950, to_offset=880)
    case.event("truncated", 30, partition=partition, broker=3, leader_epoch=1, from_offset=950, to_offset=900)
    # The next leader's high watermark counts offsets of its own epoch: what was cut before is not below it.
    case.event("became_leader", 40, partition=partition, broker=2, leader_epoch=2, log_end_offset=900)
    case.event("high_watermark", 50, partition=partition, broker=2, offset=2000)
    case.event("truncated", 60, partition=partition, broker=1, leader_epoch=1, from_offset=980, to_offset=900)
    case.counts["truncate_below_hw"] += 1


def isr_never_recovers(case: Case) -> None:
    partition = 50 + len(case.plants)
    case.event("isr_changed", 10, partition=partition, broker=1, leader_epoch=2, isr=[1, 2, 3])
    case.event("isr_changed", 20, partition=partition, broker=1, leader_epoch=2, isr=[1])
    case.counts["isr_never_recovers"] += 1


def replica_divergence(case: Case) -> None:
    case.event("replica_divergence", LATE_US, partition=0, brokers=[1, 2], offset=17)
    case.counts["replica_divergence"] += 1


def zombie_write(case: Case) -> None:
    partition, producer_id = 50 + len(case.plants), 700 + len(case.plants)
    for t_us, epoch in ((1, 0), (2, 1), (3, 0), (4, 1)):
        case.event("appended", t_us, partition=partition, broker=1, leader_epoch=1, base_offset=t_us, last_offset=t_us,
                   producer_id=producer_id, producer_epoch=epoch, crc=t_us, client_id="z")  # fmt: skip
    case.counts["zombie_write"] += 1


def two_controllers(case: Case) -> None:
    epoch = 900 + len(case.plants)
    for broker in (1, 2):
        case.event("controller_elected", broker, broker=broker, controller_epoch=epoch)
    case.counts["two_controllers"] += 1


def crashed(case: Case) -> None:
    broker = 10 + len(case.plants)
    case.event("exited", LATE_US, broker=broker, code=-6)
    case.event("killed", LATE_US, broker=broker + 100)
    case.event("exited", LATE_US + 300, broker=broker + 100, code=-9)
    case.event("out_of_memory", LATE_US, broker=broker + 200)
    case.event("exited", LATE_US + 300, broker=broker + 200, code=-9)
    case.counts["crashed"] += 1


def _end_badly(case: Case, name: str) -> None:
    if "anomaly" not in case.outcome:
        case.outcome |= {"anomaly": name, "status": "failed", "reason": "planted"}
        case.doubts.add("cell finished")
        case.counts[name] += 1


def no_recovery(case: Case) -> None:
    _end_badly(case, "no_recovery")


def hang(case: Case) -> None:
    _end_badly(case, "hang")


def harness_error(case: Case) -> None:
    _end_badly(case, "harness_error")


def group(case: Case) -> str:
    return f"g{len(case.plants)}"


def commit_regression(case: Case) -> None:
    for t_us, kind, offset in ((1, "committed", 50), (2, "committed", 40), (3, "reset", 10), (4, "committed", 12)):
        case.history.append({"t_us": t_us, "kind": kind, "group": group(case), "partition": 0, "offset": offset,
                             "cause": "out of range"})  # fmt: skip
    case.counts["commit_regression"] += 1


def double_owner(case: Case) -> None:
    for t_us, kind, member in ((1, "assigned", "a"), (2, "assigned", "b"), (3, "revoked", "a"), (4, "assigned", "b")):
        case.history.append({"t_us": t_us, "kind": kind, "group": group(case), "member": member, "generation": 1,
                             "partitions": [3]})  # fmt: skip
    case.counts["double_owner"] += 1


def rebalance_storm(case: Case) -> None:
    for generation in range(30):
        case.history.append({"t_us": generation * 1_000_000, "kind": "assigned", "group": group(case), "member": "a",
                             "generation": generation, "partitions": []})  # fmt: skip
    case.counts["rebalance_storm"] += 1


def stuck_consumer(case: Case) -> None:
    for member, offsets in (("a", (5, 5, 5)), ("b", (5, 6, 7))):
        for number, offset in enumerate(offsets):
            case.history.append({"t_us": number * 6_000_000, "kind": "position", "group": group(case), "partition": 0,
                                 "member": member, "offset": offset, "end_offset": 90})  # fmt: skip
    case.counts["stuck_consumer"] += 1


def _members(case: Case) -> dict[str, Any]:
    found: dict[str, Any] = case.outcome.setdefault("members", {"caught_up": True, "missing": "", "died": []})
    return found


def left_behind(case: Case) -> None:
    if _members(case)["caught_up"]:
        _members(case).update(caught_up=False, missing="app, partition 0: given up to 5, the end is 9")
        case.counts["stuck_consumer"] += 1


def client_died(case: Case) -> None:
    _members(case)["died"].append("member app-0 ended by itself: KeyError")
    case.counts["client_died"] += 1


def spurious_reset(case: Case) -> None:
    for cause in ("", "out of range"):
        case.history.append({"t_us": 1, "kind": "reset", "group": group(case), "partition": 1, "offset": 0,
                             "cause": cause})  # fmt: skip
    case.counts["spurious_reset"] += 1


def dup_bound_exceeded(case: Case) -> None:
    name = group(case)
    lines = [
        {"t_us": 1, "kind": "committed", "partition": 0, "offset": 100},
        {"t_us": 2, "kind": "assigned", "member": "a", "generation": 2, "partitions": [0]},
        {"t_us": 3, "kind": "position", "member": "a", "partition": 0, "offset": 90, "end_offset": 90},
        {"t_us": 4, "kind": "assigned", "member": "b", "generation": 3, "partitions": [0]},
        {"t_us": 5, "kind": "position", "member": "b", "partition": 0, "offset": 100, "end_offset": 100},
    ]
    case.history += [{**line, "group": name} for line in lines]
    case.counts["dup_bound_exceeded"] += 1


def conservation(case: Case) -> None:
    if case.counts["conservation"]:
        return
    case.history += [{"t_us": t_us, "kind": "balance", "total": total} for t_us, total in ((1, 100), (2, 100), (3, 99))]
    case.counts["conservation"] += 1


PLANTS: tuple[Callable[[Case], None], ...] = (
    lost, lost_unacked, recovered, phantom, failed_and_absent, unexpected, corrupt, duplicated, reordered,
    offset_reused, send_realtime_violation, dup_delivered, lost_in_delivery, poll_skip, read_above_hw,
    acked_below_min_isr, two_leaders_ack, unseen_pending, epoch_regression, hw_regression, truncate_below_hw,
    isr_never_recovers, replica_divergence, zombie_write, two_controllers, crashed, no_recovery, hang,
    harness_error, commit_regression, double_owner, rebalance_storm, stuck_consumer, left_behind, client_died,
    spurious_reset, dup_bound_exceeded, conservation, *planted_copies.PLANTS, *planted_doubts.PLANTS,
)  # fmt: skip


# --- cases ------------------------------------------------------------------------------------------------------------


def make_case(number: int) -> Case:
    """Case 0 is calm, the next ones have one plant each, all others a few drawn at random."""
    rng = random.Random(f"planted/{number}")
    case = Case(cell_id=f"case-{number:04d}", rng=rng, parts=rng.choice((1, 1, 1, 3)))
    clock_us = START_US
    for partition in range(rng.randint(1, 3)):
        clock_us = _fill(case, partition, clock_us)
    rng.shuffle(case.free)
    if number == 0:
        return case
    chosen = [PLANTS[number - 1]] if number <= len(PLANTS) else rng.choices(PLANTS, k=rng.randint(1, 5))
    for plant in sorted(chosen, key=lambda plant: plant is not unseen_pending):
        if case.free:
            plant(case)
            case.plants.append(plant.__name__)
    if case.wants_copies:  # what nobody sent is copied like all else
        unsent = [record for row in case.records.values() for record in row if not record.is_sent]
        case.note("copy_unexpected", *(record for record in unsent if record.in_log))
    identities = [record.identity for row in case.records.values() for record in row]
    assert len(identities) == len(set(identities)), f"{case.cell_id}: {case.plants} made a record of one identity twice"
    return case


def _fill(case: Case, partition: int, clock_us: int) -> int:
    """Batches of several producers, one after the other, with holes; returns the time of the last record."""
    rng = case.rng
    row: list[Record] = []
    offset = rng.choice(BASE_OFFSETS)
    seqs: dict[tuple[int, int], int] = defaultdict(int)
    while len(row) < 110:  # a verdict needs 100 records
        producer, incarnation = partition * PRODUCERS_PER_PARTITION + rng.randrange(PRODUCERS_PER_PARTITION), 0
        incarnation = rng.choice((0, 0, 1))
        for _ in range(rng.choice((1, 5, 20, 40))):
            clock_us += STEP_US
            row.append(
                Record(producer=producer, incarnation=incarnation, seq=seqs[producer, incarnation], partition=partition,
                       offset=offset, sent_us=clock_us, acked_us=clock_us + ACK_AFTER_US)
            )  # fmt: skip
            seqs[producer, incarnation] += 1
            offset += 1
        if rng.random() < 0.2:
            offset += rng.choice((1, 3, 64, 500))
    for number in range(SPACING // 2, 60, SPACING):
        # A plant may change places with the next record: both are of one producer, and stand side by side.
        here, after = row[number], row[number + 1]
        if here.identity[:2] == after.identity[:2] and here.offset + 1 == after.offset:
            case.free.append(here)
    case.records[partition] = row
    case.whole.add(partition)
    return clock_us


def write_cases(directory: Path, cases: list[Case]) -> Path:
    manifest = {"run_id": "planted", "cells": [case.cell_id for case in cases], "t0_monotonic_ns": 0}
    (directory / "cells").mkdir(parents=True)
    (directory / "manifest.json").write_text(json.dumps(manifest))
    for case in cases:
        _write_case(directory, case)
    return directory


def _write_case(directory: Path, case: Case) -> None:
    folder = directory / "cells" / case.cell_id
    folder.mkdir()
    outcome = {"status": "done", "started_us": 0, "measure_start_us": START_US, "measure_end_us": START_US + 60_000_000,
               "ended_us": ENDED_US, "copies": {"complete": True}} | case.outcome  # fmt: skip
    rows_of = _rows(case)
    outcome["final_read"] = _final_read(case, rows_of["log"])
    document = {
        "cell_id": case.cell_id,
        "run_directory": str(directory),
        "kind": "chaos",
        "topic": {"name": "t", "replication_factor": 3, "config": {"min.insync.replicas": "2"}},
        "properties": {"acks": "all", "enable.idempotence": "true"},
        "workload": {"readers": planted_copies.readers_of(case)},
        "outcome": outcome,
        "has_faults": False,
    }
    (folder / "cell.json").write_text(json.dumps(document))
    for name, lines in (("cluster", case.events), ("history", case.history)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name, rows in rows_of.items():
        if not rows:
            continue
        columns = [column.name for column in STREAMS[name].columns]
        data = {column: [row.get(column, DEFAULTS.get(column, -1)) for row in rows] for column in columns}
        parts = min(len(rows), case.parts)
        for part in range(parts):
            mine = {column: values[part::parts] for column, values in data.items()}
            write_part(directory, STREAMS[name], case.cell_id, mine, part=str(part))


def _final_read(case: Case, log: list[dict[str, int]]) -> dict[str, Any]:
    """What the harness would tell of it; ends and counts only where a plant is about them."""
    found: dict[str, Any] = {"complete": True, "corrupt": case.corrupt_batches}
    if case.foreign:
        found |= {"foreign": case.foreign, "records": len(log) + case.foreign}
    if case.wrong_end:
        ends: dict[str, int] = {}
        for row in log:
            ends[str(row["partition"])] = max(row["offset"] + 1, ends.get(str(row["partition"]), 0))
        partition = case.rng.choice(sorted(ends))
        if case.wrong_end == "low":
            ends[partition] -= 1
        elif case.wrong_end == "absent":
            ends[str(int(partition) + 1_000)] = ends.pop(partition)
        else:
            found["records"] = len(log) + case.foreign + 1
        found["end_offsets"] = ends
    return found


def _rows(case: Case) -> dict[str, list[dict[str, int]]]:
    rows: dict[str, list[dict[str, int]]] = {"send": [], "log": [], "recv": [], "batches": []}
    rows["copies"], rows["audit"] = planted_copies.copy_rows(case)
    polled_us = START_US
    for row in case.records.values():
        in_poll = 0
        for record in row:
            if record.is_sent:
                rows["send"].append(_send_row(record, int(record.status), record.acked_us))
            if record.in_log:
                rows["log"].append(_log_row(record, record.offset))
            if not record.delivered or in_poll == 0:
                in_poll = case.rng.choice((1, 1, 7, 30))  # a poll ends where a record is left out
                polled_us += STEP_US
            if record.delivered:
                in_poll -= 1
                rows["recv"].append(_recv_row(record, record.offset, polled_us))
        polled_us += STEP_US
    for record, status, acked_us in case.more_answers:
        rows["send"].append(_send_row(record, status, acked_us))
    for record, offset in case.copies:
        rows["log"].append(_log_row(record, offset))
    # Going back comes last, so that nothing is jumped over on the way forward again.
    for record, offset in sorted(case.late_polls, key=_order_of_late):
        polled_us += STEP_US
        rows["recv"].append(_recv_row(record, offset, polled_us))
    rows["recv"] += planted_copies.group_rows(case)
    rows["recv"] += _second_reader(case, rows["log"])
    rows["batches"] = _batches_of(rows["log"])
    for partition, first, last, epoch in case.batches:
        rows["batches"].append(_batch_row(partition, first, last, records=last - first + 1, epoch=epoch))
    if case.foreign:
        rows["batches"].append(_batch_row(0, FAR_OFFSET, FAR_OFFSET + case.foreign - 1, records=case.foreign))
    rng = case.rng
    for stream in ("send", "log", "batches"):  # files hold rows in any order
        rng.shuffle(rows[stream])
    return rows


def _batches_of(log: list[dict[str, int]]) -> list[dict[str, int]]:
    """A batch holds neighbours of one producer, up to 50."""
    batches: list[dict[str, int]] = []
    before: dict[str, int] = {}
    for row in sorted(log, key=lambda row: (row["partition"], row["offset"])):
        joins = (
            before
            and row["offset"] - before["offset"] in (0, 1)
            and all(row[name] == before[name] for name in ("partition", "producer", "incarnation"))
        )
        if joins and batches[-1]["records"] < 50:
            batches[-1]["records"] += 1
            batches[-1]["last_offset"] = row["offset"]
        else:
            batches.append(_batch_row(row["partition"], row["offset"], row["offset"], records=1))
        before = row
    return batches


def _batch_row(partition: int, first: int, last: int, *, records: int, epoch: int = 0) -> dict[str, int]:
    return {"partition": partition, "base_offset": first, "last_offset": last, "leader_epoch": epoch,
            "records": records, "size_bytes": 100, "uncompressed_bytes": 100, "codec": 0, "producer_id": -1,
            "producer_epoch": -1, "base_sequence": -1, "crc": 1}  # fmt: skip


def _second_reader(case: Case, log: list[dict[str, int]]) -> list[dict[str, int]]:
    """Gets what the log holds, in order, by two consumers with partitions of their own, in polls of many records."""
    polled_us, rows = SECOND_READS_AT_US, []
    places = {(row["partition"], row["offset"]): row for row in log}
    for number, (partition, offset) in enumerate(sorted(places)):
        polled_us += STEP_US if number % 25 == 0 else 0
        row = places[partition, offset]
        rows.append(
            {name: row[name] for name in ("producer", "incarnation", "seq", "partition", "offset", "intended_us")}
            | {"reader": planted_copies.SECOND_READER, "consumer": 7 + partition % 2, "generation": -1,
               "polled_us": polled_us, "crc_ok": 1}
        )  # fmt: skip
    return rows


def _send_row(record: Record, status: int, acked_us: int) -> dict[str, int]:
    offset = record.offset if record.acked_offset is None else record.acked_offset
    return _identity(record) | {
        "partition": record.partition if record.acked_partition is None else record.acked_partition,
        "status": status, "error": 0 if status == SendStatus.ACKED or record.is_let_go else 7, "size_bytes": 100,
        "sent_us": record.sent_us, "acked_us": acked_us,
        "intended_us": record.sent_us if record.intended_us is None else record.intended_us,
        "offset": offset if status == SendStatus.ACKED else -1}  # fmt: skip


def _order_of_late(late_poll: tuple[Record, int]) -> tuple[bool, int]:
    """Copies at the end first, upwards; then back and further back."""
    record, offset = late_poll
    is_going_back = offset <= record.offset
    return is_going_back, -offset if is_going_back else offset


def _identity(record: Record) -> dict[str, int]:
    return {"producer": record.producer, "incarnation": record.incarnation, "seq": record.seq}


def _log_row(record: Record, offset: int) -> dict[str, int]:
    return _identity(record) | {"partition": record.partition, "offset": offset, "leader_epoch": 0,
                                "batch_base_offset": offset, "intended_us": record.sent_us,
                                "crc_ok": record.log_crc_ok}  # fmt: skip


def _recv_row(record: Record, offset: int, polled_us: int) -> dict[str, int]:
    return _identity(record) | {"consumer": 0, "generation": -1, "partition": record.partition, "offset": offset,
                                "intended_us": record.sent_us, "polled_us": polled_us, "crc_ok": 1}  # fmt: skip
