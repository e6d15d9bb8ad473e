"""Writes planted cases down as a run directory: rows of every stream, events, documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runlog.records.codec import to_json
from runlog.streams.inventory import take_inventory
from runlog.streams.parquet import write_part
from runlog.streams.schema import STREAMS, SendStatus
from tests.reports import planted_copies
from tests.reports.planted_case import FAR_OFFSET, LATE_US, PARTITIONS_OF_TOPIC, START_US, STEP_US, Case, Record

DEFAULTS = {"reader": 0}  # of columns that no plant is about
SECOND_READS_AT_US = 430_000_000
MEASURED_US, ENDED_US = 60_000_000, 2_000_000_000


def write_cases(directory: Path, cases: list[Case]) -> Path:
    """All of one version of the run log: with lists of files (3), or without (2)."""
    version = 3 if cases[0].is_listed else 2
    manifest = {"run_id": "planted", "cells": [case.cell_id for case in cases], "t0_monotonic_ns": 0,
                "schema_version": version, "status": "finished"}  # fmt: skip
    (directory / "cells").mkdir(parents=True)
    (directory / "manifest.json").write_text(json.dumps(manifest))
    for case in cases:
        _write_case(directory, case)
        if case.damage:
            case.damaged_file = case.damage(directory, case)
    return directory


def _write_case(directory: Path, case: Case) -> None:
    folder = directory / "cells" / case.cell_id
    folder.mkdir()
    times = {"started_us": 0, "measure_start_us": START_US, "measure_end_us": START_US + MEASURED_US,
             "ended_us": ENDED_US}  # fmt: skip
    outcome: dict[str, Any] = {"status": "done", **times, "copies": {"complete": True}} | case.outcome
    rows_of = case.rows = _rows(case)
    outcome["final_read"] = _final_read(case, rows_of["log"])
    document: dict[str, Any] = {
        "cell_id": case.cell_id,
        "run_directory": str(directory),
        "kind": "chaos",
        "topic": {"name": "t", "replication_factor": 3, "config": {"min.insync.replicas": "2", **case.config}},
        "properties": {"acks": "all", "enable.idempotence": "true"},
        "workload": {"readers": planted_copies.readers_of(case), "topics": case.topics},
        "outcome": outcome,
        "has_faults": False,
    }
    history = case.history + _answers_of_share_groups(case, outcome["final_read"])
    for name, lines in (("cluster", case.events), ("history", history)):
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
    if case.topics > 1:
        document["topic"]["partitions"] = PARTITIONS_OF_TOPIC
    if case.is_listed:
        document["files"] = to_json(take_inventory(directory, case.cell_id))
    (folder / "cell.json").write_text(json.dumps(document))


def _final_read(case: Case, log: list[dict[str, int]]) -> dict[str, Any]:
    """What the harness would tell of it; ends and counts only where a plant is about them."""
    found: dict[str, Any] = {"complete": True, "corrupt": case.corrupt_batches}
    if case.starts:
        found["start_offsets"] = {str(partition): start for partition, start in case.starts.items()}
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


def _answers_of_share_groups(case: Case, final_read: dict[str, Any]) -> list[dict[str, Any]]:
    """Where ends are told, each group was asked about each of these partitions, too."""
    ends: dict[str, int] = final_read.get("end_offsets", {}) if case.has_share_group else {}
    return [
        {"t_us": LATE_US, "kind": "share_end", "group": "t-queue", "partition": int(partition), "start_offset": end,
         "lag": 0}
        for partition, end in ends.items()
    ]  # fmt: skip


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
