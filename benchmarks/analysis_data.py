"""A run directory of any size with damage of known size: numpy columns, two million rows at a time. No broker.

Records come in batches of 50, which go to 4 producers and 12 partitions in turn. What is damaged in them, and how many
records of each kind that makes, is in analysis_damage.py.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.analysis_damage import (
    BATCH,
    DAMAGE_EVERY,
    LATER_SLOTS,
    PARTITIONS,
    PRODUCERS,
    Amount,
    Damage,
    Kind,
    is_hole,
    marked,
)
from runlog.streams.parquet import write_part
from runlog.streams.schema import ABSENT, BATCHES, LOG, RECV, SEND, SendStatus

CELL: Final = "scale"
CHUNK_BATCHES: Final = 40_008  # two million records; a multiple of the partitions
RATE_PER_S: Final = 200_000
START_US: Final = 1_000_000
READ_AFTER_US: Final = 200_000
SLOT_US: Final = PARTITIONS * BATCH * 1_000_000 // RATE_PER_S
TIMED_OUT: Final = 7  # of Kafka's error codes
Columns = dict[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What was planted, in records. Those at the end are marked in a run with heavy damage only."""

    records: int
    rows: int
    lost: int
    duplicated: int
    reordered: int
    unknown: int
    offset_reused: int
    unseen_pending: int
    lost_in_delivery: int
    read_above_hw: int
    redelivered: int


def generate(
    directory: Path,
    *,
    records: int,
    seed: int = 1,
    chunk_batches: int = CHUNK_BATCHES,
    damage_every: int = DAMAGE_EVERY,
    amount: Amount = Amount.LIGHT,
) -> Truth:
    """Writes the run in whole chunks; returns what it holds."""
    assert chunk_batches % PARTITIONS == 0, chunk_batches
    rng = np.random.default_rng(seed)
    batches = -(-records // (BATCH * chunk_batches)) * chunk_batches
    damage = Damage(amount=amount, batches=batches, every=damage_every)
    totals: Counter[str] = Counter()
    for number, first in enumerate(range(0, batches, chunk_batches)):
        _chunk(directory, np.arange(first, first + chunk_batches), damage, number, rng, totals)
    _documents(directory, START_US + batches * BATCH * 1_000_000 // RATE_PER_S)
    planted = {each.name: totals[each.name] for each in fields(Truth)}
    return Truth(**{**planted, "records": batches * BATCH})


def _chunk(
    directory: Path,
    batch: NDArray[np.int64],
    damage: Damage,
    number: int,
    rng: np.random.Generator,
    totals: Counter[str],
) -> None:
    """One part of every stream."""
    kind = damage.kinds(batch)
    place = batch.copy()  # where in the order of all batches it was appended
    earlier = (kind == Kind.SWAPPED) & (batch + PARTITIONS <= batch[-1])
    (first,) = np.nonzero(earlier)
    place[first], place[first + PARTITIONS] = batch[first] + PARTITIONS, batch[first]
    part = f"{number:06d}"
    send = _records(batch, place)
    each_kind = np.repeat(kind, BATCH)
    _send(directory, send, each_kind, len(batch), rng, part)
    within = send["seq"] % BATCH
    stored = {name: values.copy() for name, values in send.items()}
    stored["offset"] += np.where(each_kind == Kind.REVERSED, BATCH - 1 - 2 * within, 0)
    is_gone = (each_kind == Kind.LOST) | ((each_kind == Kind.HOLED) & is_hole(within))
    twice = kind == Kind.TWICE
    again = _records(batch[twice], damage.batches + batch[twice])  # in the room that no batch of the others has
    log = {name: np.concatenate([stored[name][~is_gone], again[name]]) for name in stored}
    leader = {"leader_epoch": np.zeros(len(log["seq"]), np.int64), "crc_ok": np.ones(len(log["seq"]), np.int64)}
    write_part(directory, LOG, CELL, {**log, "batch_base_offset": log["offset"] // BATCH * BATCH, **leader}, part=part)
    received = _recv(directory, stored, again, each_kind, damage, part)
    _batches(directory, log, part)
    totals.update(marked(damage, kind, place // PARTITIONS, earlier))
    totals["rows"] += len(send["seq"]) + len(log["seq"]) + received


def _send(
    directory: Path, send: Columns, each_kind: NDArray[np.int64], batches: int, rng: np.random.Generator, part: str
) -> None:
    count = len(send["seq"])
    sent_us = send["intended_us"] + rng.integers(50, 400, count)
    way_us = rng.lognormal(8, 0.5, batches).astype(np.int64)  # 3 ms in the middle
    acked_us = np.repeat(sent_us.reshape(-1, BATCH).max(axis=1) + way_us, BATCH)
    is_unknown = each_kind == Kind.UNKNOWN
    write_part(
        directory, SEND, CELL,
        {**{name: send[name] for name in ("producer", "incarnation", "seq", "partition", "intended_us")},
         "status": np.where(is_unknown, int(SendStatus.UNKNOWN), int(SendStatus.ACKED)),
         "error": np.where(is_unknown, TIMED_OUT, 0), "size_bytes": np.full(count, 100), "sent_us": sent_us,
         "acked_us": np.where(is_unknown, ABSENT, acked_us), "offset": np.where(is_unknown, ABSENT, send["offset"]),
         "appended_us": np.full(count, ABSENT)},
        part=part,
    )  # fmt: skip


def _recv(
    directory: Path, stored: Columns, again: Columns, each_kind: NDArray[np.int64], damage: Damage, part: str
) -> int:
    """Readers get the log in its order, a batch a poll. How many rows they have."""
    got = damage.is_delivered(stored["offset"] // BATCH) & (each_kind != Kind.LOST)
    got_again = damage.is_delivered(again["offset"] // BATCH)
    later = got & (each_kind == Kind.AGAIN)
    recv = {name: np.concatenate([stored[name][got], again[name][got_again], stored[name][later]]) for name in stored}
    order = recv["offset"] // BATCH * PARTITIONS + recv["partition"]
    polled_us = START_US + READ_AFTER_US + order * BATCH * 1_000_000 // RATE_PER_S
    polled_us[len(polled_us) - int(later.sum()) :] += LATER_SLOTS * SLOT_US + SLOT_US // 3  # between two other polls
    count = len(polled_us)
    write_part(
        directory, RECV, CELL,
        {**recv, "consumer": recv["partition"] % 2, "generation": np.full(count, -1), "polled_us": polled_us,
         "crc_ok": np.ones(count, np.int64), "appended_us": np.full(count, ABSENT)},
        part=part,
    )  # fmt: skip
    return count


def _records(batch: NDArray[np.int64], place: NDArray[np.int64]) -> Columns:
    within = np.tile(np.arange(BATCH), len(batch))
    each, at = np.repeat(batch, BATCH), np.repeat(place, BATCH)
    return {
        "producer": each % PRODUCERS,
        "incarnation": np.zeros(len(each), dtype=np.int64),
        "seq": each // PRODUCERS * BATCH + within,
        "partition": each % PARTITIONS,
        "offset": at // PARTITIONS * BATCH + within,
        "intended_us": START_US + (each * BATCH + within) * 1_000_000 // RATE_PER_S,
    }


def _batches(directory: Path, log: Columns, part: str) -> None:
    order, records = np.unique(log["offset"] // BATCH * PARTITIONS + log["partition"], return_counts=True)
    base_offset, count = order // PARTITIONS * BATCH, len(order)
    numbers = np.full(count, -1)
    write_part(
        directory, BATCHES, CELL,
        {"partition": order % PARTITIONS, "base_offset": base_offset,
         "last_offset": base_offset + BATCH - 1, "leader_epoch": np.zeros(count, dtype=np.int64),
         "records": records, "size_bytes": np.full(count, 3_000), "codec": np.zeros(count, np.int64),
         "uncompressed_bytes": np.full(count, 5_500), "producer_id": numbers, "producer_epoch": numbers,
         "base_sequence": numbers, "crc": np.zeros(count, np.int64)},
        part=part,
    )  # fmt: skip


def _documents(directory: Path, end_us: int) -> None:
    outcome: dict[str, Any] = {
        "status": "done", "reason": "", "started_us": START_US - 500_000, "measure_start_us": START_US,
        "measure_end_us": end_us, "ended_us": end_us + 500_000, "producers": [], "health": {},
        "effective": {"client": {}, "topic": {}, "broker": {}},
        "final_read": {"complete": True, "reason": "", "end_offsets": {}},
    }  # fmt: skip
    document = {
        "cell_id": CELL, "kind": "sweep", "title": CELL, "client": "none", "engine": "reference",
        "properties": {"acks": "1"}, "workload": {}, "knobs": {}, "seed": 1,
        "topic": {"name": "t", "partitions": PARTITIONS, "replication_factor": 3, "config": {}},
        "expect": dict.fromkeys(("lost", "duplicated", "reordered"), "any"), "outcome": outcome,
    }  # fmt: skip
    cell = directory / "cells" / CELL
    cell.mkdir(parents=True, exist_ok=True)
    (cell / "cell.json").write_text(json.dumps(document))
    manifest = {"run_id": "scale", "argv": [], "cells": [CELL], "t0_monotonic_ns": 0, "engine": "reference"}
    (directory / "manifest.json").write_text(json.dumps(manifest))
