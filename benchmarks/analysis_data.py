"""A run directory of any size with damage of known size: numpy columns, two million rows at a time. No broker.

Records come in batches of 50, which go to 4 producers and 12 partitions in turn. Some batches are lost (acknowledged,
not in the log). Some are in the log twice. Some are swapped with the next batch of their producer and partition.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from runlog.streams.parquet import write_part
from runlog.streams.schema import ABSENT, BATCHES, LOG, RECV, SEND

CELL: Final = "scale"
BATCH: Final = 50
PRODUCERS: Final = 4
PARTITIONS: Final = 12
CHUNK_BATCHES: Final = 40_008  # two million records; a multiple of the partitions
RATE_PER_S: Final = 200_000
DAMAGE_EVERY: Final = 5_003  # batches; three kinds take turns
START_US: Final = 1_000_000
READ_AFTER_US: Final = 200_000
LOST, TWICE, SWAPPED, NO_DAMAGE = 0, 1, 2, -1
Columns = dict[str, NDArray[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What was planted, in records."""

    records: int
    rows: int
    lost: int
    duplicated: int
    reordered: int


def generate(
    directory: Path,
    *,
    records: int,
    seed: int = 1,
    chunk_batches: int = CHUNK_BATCHES,
    damage_every: int = DAMAGE_EVERY,
) -> Truth:
    """Writes the run in whole chunks; returns what it holds."""
    assert chunk_batches % PARTITIONS == 0, chunk_batches
    rng = np.random.default_rng(seed)
    batches = -(-records // (BATCH * chunk_batches)) * chunk_batches
    totals = dict.fromkeys(("send", "log", "recv", "lost", "duplicated", "reordered"), 0)
    for number, first in enumerate(range(0, batches, chunk_batches)):
        chunk = np.arange(first, first + chunk_batches)
        kind = np.where(chunk % damage_every == damage_every // 2, chunk // damage_every % 3, NO_DAMAGE)
        _chunk(directory, chunk, kind, batches, number, rng, totals)
    _documents(directory, START_US + batches * BATCH * 1_000_000 // RATE_PER_S)
    rows = totals["send"] + totals["log"] + totals["recv"]
    kinds = {kind: totals[kind] for kind in ("lost", "duplicated", "reordered")}
    return Truth(records=batches * BATCH, rows=rows, **kinds)


def _chunk(
    directory: Path,
    batch: NDArray[np.int64],
    kind: NDArray[np.int64],
    batches: int,
    number: int,
    rng: np.random.Generator,
    totals: dict[str, int],
) -> None:
    """One part of every stream."""
    place = batch.copy()  # where in the order of all batches it was appended
    earlier = np.flatnonzero((kind == SWAPPED) & (batch + PARTITIONS <= batch[-1]))
    place[earlier], place[earlier + PARTITIONS] = batch[earlier] + PARTITIONS, batch[earlier]
    lost, twice = kind == LOST, kind == TWICE
    send = _records(batch, place)
    count = len(send["seq"])
    sent_us = send["intended_us"] + rng.integers(50, 400, count)
    way_us = rng.lognormal(8, 0.5, len(batch)).astype(np.int64)  # 3 ms in the middle
    acked_us = np.repeat(sent_us.reshape(-1, BATCH).max(axis=1) + way_us, BATCH)
    blank = {"status": np.zeros(count, dtype=np.int64), "error": np.zeros(count, dtype=np.int64)}
    part = f"{number:06d}"
    shared = {name: send[name] for name in ("producer", "incarnation", "seq", "partition", "intended_us")}
    write_part(
        directory, SEND, CELL,
        {**shared, **blank, "size_bytes": np.full(count, 100), "sent_us": sent_us, "acked_us": acked_us,
         "offset": send["offset"], "appended_us": np.full(count, ABSENT)},
        part=part,
    )  # fmt: skip
    kept = np.repeat(~lost, BATCH)
    again = _records(batch[twice], batches + batch[twice])  # after all others: in the room that no batch of them has
    log = {name: np.concatenate([send[name][kept], again[name]]) for name in send}
    leader = {"leader_epoch": np.zeros(len(log["seq"]), dtype=np.int64), "crc_ok": np.ones(len(log["seq"]), np.int64)}
    write_part(directory, LOG, CELL, {**log, "batch_base_offset": log["offset"] // BATCH * BATCH, **leader}, part=part)
    # Readers get the log in its order, a batch a poll.
    order = log["offset"] // BATCH * PARTITIONS + log["partition"]
    polled_us = START_US + READ_AFTER_US + order * BATCH * 1_000_000 // RATE_PER_S
    write_part(
        directory, RECV, CELL,
        {**log, "consumer": log["partition"] % 2, "generation": np.full(len(log["seq"]), -1), "polled_us": polled_us,
         "crc_ok": leader["crc_ok"], "appended_us": np.full(len(log["seq"]), ABSENT)},
        part=part,
    )  # fmt: skip
    _batches(directory, log, part)
    totals["send"] += count
    totals["log"] += len(log["seq"])
    totals["recv"] += len(log["seq"])
    totals["lost"] += int(lost.sum()) * BATCH
    totals["duplicated"] += int(twice.sum()) * BATCH
    totals["reordered"] += len(earlier) * BATCH


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
    first = log["offset"] % BATCH == 0
    count = int(first.sum())
    numbers = np.full(count, -1)
    write_part(
        directory, BATCHES, CELL,
        {"partition": log["partition"][first], "base_offset": log["offset"][first],
         "last_offset": log["offset"][first] + BATCH - 1, "leader_epoch": np.zeros(count, dtype=np.int64),
         "records": np.full(count, BATCH), "size_bytes": np.full(count, 3_000), "codec": np.zeros(count, np.int64),
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
