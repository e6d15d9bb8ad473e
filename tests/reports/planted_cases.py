"""Run logs with planted anomalies of every kind: what the checker must find, to the record, and nothing else.

A case is one cell of some hundred records in which everything is in order. Then a few plants change it, each in records
of its own. Records come in batches of several producers and incarnations, with holes between them and offsets up to
2^40. Two readers get them in polls of many records. Streams lie in several files.

A plant notes in `truth` every anomaly that its damage is by the rules of `reports/judge/anomalies.py`. For example, if
a poll jumps over a record and the record never comes, it is also passed over. In some cases a file is damaged after it
was written. Cases are drawn from a seed.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from tests.reports import planted_copies, planted_doubts, planted_events, planted_records
from tests.reports.planted_case import ACK_AFTER_US, START_US, STEP_US, Case, Record
from tests.reports.planted_damage import DAMAGES, OF_OLD_RUNS, with_calm_events
from tests.reports.planted_records import in_wrong_topic, unseen_pending

SPACING = 8  # records between two plants
BASE_OFFSETS = (0, 0, 37, 1 << 20, (1 << 40) - 1_000)  # where a log begins
PRODUCERS_PER_PARTITION = 3
DAMAGED_SHARE = 0.15  # of the cases drawn at random
Plant = Callable[[Case], None]
Damage = Callable[[Path, Case], str]
PLANTS: tuple[Plant, ...] = (
    *planted_records.PLANTS, *planted_events.PLANTS, *planted_copies.PLANTS, *planted_doubts.PLANTS,
)  # fmt: skip


def make_case(number: int, *, is_listed: bool = True) -> Case:
    """Case 0 is calm, the next ones have one plant or one damage each, all others a few drawn at random."""
    rng = random.Random(f"planted/{number}")
    case = Case(cell_id=f"case-{number:04d}", rng=rng, parts=rng.choice((1, 1, 1, 3)), is_listed=is_listed)
    clock_us = START_US
    for partition in range(rng.randint(1, 3)):
        clock_us = _fill(case, partition, clock_us)
    rng.shuffle(case.free)
    chosen, case.damage = _chosen(case, number)
    for plant in sorted(chosen, key=lambda plant: plant is not unseen_pending):
        if case.free:
            plant(case)
            case.plants.append(plant.__name__)
    if case.damage:
        with_calm_events(case)
        case.plants.append(case.damage.__name__)
    if case.wants_copies:  # what nobody sent is copied like all else
        unsent = [record for row in case.records.values() for record in row if not record.is_sent]
        case.note("copy_unexpected", *(record for record in unsent if record.in_log))
    if case.starts:
        case.truth["removed_in_doubt"] |= case.truth.pop("lost_unacked", set())
    identities = [record.identity for row in case.records.values() for record in row]
    assert len(identities) == len(set(identities)), f"{case.cell_id}: {case.plants} made a record of one identity twice"
    return case


def _chosen(case: Case, number: int) -> tuple[list[Plant], Damage | None]:
    """Its plants, and the damage to one of its files."""
    rng, damages = case.rng, DAMAGES if case.is_listed else OF_OLD_RUNS
    if number == 0:
        return [], None
    if number <= len(PLANTS):
        return [PLANTS[number - 1]], None
    if number <= len(PLANTS) + len(DAMAGES):
        return [], DAMAGES[number - len(PLANTS) - 1]
    damage = rng.choice(damages) if rng.random() < DAMAGED_SHARE else None
    chosen = rng.choices(PLANTS, k=rng.randint(1, 5))
    return ([in_wrong_topic] if in_wrong_topic in chosen else chosen), damage


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
