"""One planted case: its records, what plants change in them, and what must be found because of that.

Plants (`planted_records`, `planted_events`, `planted_copies`, `planted_doubts`, `planted_damage`) change a case;
`planted_rows` writes it down.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runlog.streams.schema import SendStatus
from tests.reports import planted_copies

Identity = tuple[int, int, int]
START_US, STEP_US, ACK_AFTER_US = 1_000_000, 20_000, 4_000
FAR_OFFSET = 200_000  # of events that concern no record of the case
LATE_US = 400_000_000
PARTITIONS_OF_TOPIC = 64  # where there are several topics: more than any plant uses


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
    has_share_group: bool = False
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
    starts: dict[int, int] = field(default_factory=dict)  # partition -> where its final log begins, if not at 0
    config: dict[str, str] = field(default_factory=dict)  # of the topic
    topics: int = 1
    parts: int = 1  # files of each stream
    whole: set[int] = field(default_factory=set)  # partitions that plants may cut at an end
    truth: dict[str, set[Identity]] = field(default_factory=lambda: defaultdict(set))
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    plants: list[str] = field(default_factory=list)
    free: list[Record] = field(default_factory=list)  # where the next plants go
    is_listed: bool = True  # its files are, as in every run since version 3 of the run log
    damage: Callable[[Path, Case], str] | None = None  # of planted_damage
    damaged_file: str = ""  # once written: by which name it must be told
    rows: dict[str, list[dict[str, int]]] = field(default_factory=dict)  # once written: of each stream
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
