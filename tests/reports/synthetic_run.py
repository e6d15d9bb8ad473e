"""Makes run directories with planted damage of known size: what `reports` must find again, to the record.

A small model of producers, batches and partition logs; every damage is planted on purpose and noted in `Truth`.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runlog.records.codec import to_json
from runlog.streams.inventory import take_inventory
from runlog.streams.parquet import write_part
from runlog.streams.schema import SCHEMA_VERSION, STREAMS, SendStatus

Identity = tuple[int, int, int]
T0_NS = 5_000_000_000
START_US, SECOND_US = 1_000_000, 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """How much of each anomaly to plant; in batches where the anomaly strikes batches, else in records."""

    lost_batches: int = 0
    duplicated_batches: int = 0
    reordered_batches: int = 0
    recovered: int = 0
    unexpected: int = 0
    corrupt: int = 0
    dup_delivered: int = 0


@dataclass(slots=True, kw_only=True)
class Truth:
    sets: dict[str, set[Identity]] = field(default_factory=lambda: defaultdict(set))
    acked: int = 0
    unknown: int = 0


@dataclass(slots=True, kw_only=True)
class _Batch:
    producer: int
    seqs: range
    partition: int
    sent_us: int
    correlation_id: int
    crc: int
    appended_at: list[int] = field(default_factory=list)  # base offsets; the first is that of the acknowledgement
    truncated: bool = False

    def identities(self) -> set[Identity]:
        return {(self.producer, 0, seq) for seq in self.seqs}


@dataclass(slots=True, kw_only=True)
class SyntheticCell:
    """Plants one cell. `seconds` of load at `rate_per_s`; partition 0 loses its leader half-way if loss is asked."""

    cell_id: str
    damage: Damage = Damage()
    seed: int = 1
    rate_per_s: int = 1500
    seconds: int = 2
    producers: int = 2
    partitions: int = 3
    kind: str = "chaos"
    title: str = ""
    expect: dict[str, str] | None = None
    properties: dict[str, str] = field(default_factory=dict)
    document: dict[str, Any] = field(default_factory=dict)
    journal: bool = True
    proved: bool = True
    service_us: int = 2_000
    truth: Truth = field(default_factory=Truth)
    columns: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    lines: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for name, stream in STREAMS.items():
            self.columns[name] = {column.name: [] for column in stream.columns}

    def _row(self, stream: str, **values: int) -> None:
        for column in STREAMS[stream].columns:
            value = values.get(column.name, column.default)
            assert value is not None, f"{stream}.{column.name} is needed"
            self.columns[stream][column.name].append(value)

    def build(self) -> SyntheticCell:
        rng = random.Random(self.seed)
        batches = self._batches(rng)
        logs, truncated = self._append(rng, batches)
        unknown = self._choose_unknown(rng, batches)
        self._write_sends(rng, batches, unknown)
        self._write_logs(rng, logs)
        self._write_journal(logs, truncated)
        self._count_truth(unknown)
        return self

    def _batches(self, rng: random.Random) -> list[_Batch]:
        batches: list[_Batch] = []
        per_producer = self.rate_per_s * self.seconds // self.producers
        interval_us = SECOND_US * self.producers // self.rate_per_s
        for producer in range(self.producers):
            seq, correlation = 0, 10
            while seq < per_producer:
                end = min(per_producer, seq + rng.randint(1, 12))
                batches.append(
                    _Batch(
                        producer=producer,
                        seqs=range(seq, end),
                        partition=rng.randrange(self.partitions),
                        sent_us=START_US + end * interval_us,
                        correlation_id=correlation,
                        crc=rng.getrandbits(32),
                    )
                )
                seq, correlation = end, correlation + 1
        batches.sort(key=lambda batch: (batch.sent_us, batch.producer))
        return batches

    def _append(
        self, rng: random.Random, batches: list[_Batch]
    ) -> tuple[dict[int, list[tuple[int, int, _Batch]]], list[dict[str, Any]]]:
        """Partition logs as (base_offset, leader_epoch, batch); struck batches come late or twice, a tail goes."""
        by_stream: dict[tuple[int, int], list[_Batch]] = defaultdict(list)
        for batch in batches:
            by_stream[(batch.producer, batch.partition)].append(batch)
        middle_us = START_US + self.seconds * SECOND_US // 2
        calm = [batch for batch in batches if batch.sent_us < middle_us - 200_000]
        late = self._pick_late(rng, by_stream, calm)
        twice = rng.sample([b for b in calm if id(b) not in late], self.damage.duplicated_batches)
        release: dict[int, list[_Batch]] = defaultdict(list)
        logs: dict[int, list[tuple[int, int, _Batch]]] = defaultdict(list)
        ends: dict[int, int] = defaultdict(int)
        truncated: list[dict[str, Any]] = []
        cut = False

        def append(batch: _Batch) -> None:
            epoch = 1 if cut and batch.partition == 0 else 0
            base = ends[batch.partition]
            batch.appended_at.append(base)
            logs[batch.partition].append((base, epoch, batch))
            ends[batch.partition] += len(batch.seqs)

        for batch in batches:
            if self.damage.lost_batches and not cut and batch.sent_us >= middle_us:
                truncated.append(self._cut(logs[0], ends, middle_us))
                cut = True
            if id(batch) in late:
                self._wire(batch, "refused", -1, 7)
                release[late[id(batch)]].append(batch)
                continue
            append(batch)
            if any(batch is other for other in twice):
                self._wire(batch, "dropped", batch.appended_at[0], 0)
                append(batch)
                self._wire(batch, "delivered", batch.appended_at[1], 0)
                self.truth.sets["duplicated"] |= batch.identities()
            else:
                self._wire(batch, "delivered", batch.appended_at[0], 0)
            for delayed in release.pop(id(batch), []):
                append(delayed)
                self._wire(delayed, "delivered", delayed.appended_at[0], 0)
                self.truth.sets["reordered"] |= delayed.identities()
        assert not release
        return logs, truncated

    def _pick_late(
        self, rng: random.Random, by_stream: dict[tuple[int, int], list[_Batch]], calm: list[_Batch]
    ) -> dict[int, int]:
        """Batches that come behind a later one of their producer and partition: id of the late -> id of the other."""
        calm_ids = {id(batch) for batch in calm}
        choices = [
            (stream[place], stream[place + rng.randint(1, 2)])
            for stream in by_stream.values()
            for place in range(0, len(stream) - 3, 4)
            if id(stream[place + 2]) in calm_ids
        ]
        return {id(first): id(other) for first, other in rng.sample(choices, self.damage.reordered_batches)}

    def _cut(self, log: list[tuple[int, int, _Batch]], ends: dict[int, int], now_us: int) -> dict[str, Any]:
        tail = log[-self.damage.lost_batches :]
        del log[-self.damage.lost_batches :]
        event = {
            "t_us": now_us + 300_000,
            "broker": 1,
            "kind": "truncated",
            "source": "journal",
            "topic": "t",
            "partition": 0,
            "leader_epoch": 0,
            "from_offset": ends[0],
            "to_offset": tail[0][0],
        }
        ends[0] = tail[0][0]
        for _, _, batch in tail:
            batch.truncated = True
            self.truth.sets["lost"] |= batch.identities()
        self.lines["cluster"].append(
            {
                "t_us": now_us,
                "broker": 2,
                "kind": "became_leader",
                "source": "journal",
                "topic": "t",
                "partition": 0,
                "leader_epoch": 1,
                "log_end_offset": ends[0],
            }
        )
        return event

    def _wire(self, batch: _Batch, outcome: str, base_offset: int, error_code: int) -> None:
        attempt = 1 + sum(line["crc"] == batch.crc for line in self.lines["wire"][-400:])
        self.lines["wire"].append(
            {
                "mono_ns": T0_NS + batch.sent_us * 1000 + len(self.lines["wire"]),
                "proxy": "client-1",
                "connection": 1,
                "client_id": f"producer-{batch.producer}",
                "correlation_id": batch.correlation_id,
                "topic": "t",
                "partition": batch.partition,
                "crc": batch.crc,
                "records": len(batch.seqs),
                "attempt": attempt,
                "outcome": outcome,
                "base_offset": base_offset,
                "error_code": error_code,
            }
        )

    def _choose_unknown(self, rng: random.Random, batches: list[_Batch]) -> set[Identity]:
        damaged = set().union(*self.truth.sets.values()) if self.truth.sets else set()
        sound = [identity for batch in batches for identity in sorted(batch.identities()) if identity not in damaged]
        chosen = set(rng.sample(sound, self.damage.recovered))
        self.truth.sets["recovered"] |= chosen
        return chosen

    def _write_sends(self, rng: random.Random, batches: list[_Batch], unknown: set[Identity]) -> None:
        interval_us = SECOND_US * self.producers // self.rate_per_s
        died_us = START_US + self.seconds * SECOND_US // 2 - 1
        for batch in batches:
            # A leader that is gone acknowledges nothing: what it acknowledged, it did before its successor came.
            latest_us = died_us if batch.truncated else 2**62
            for place, seq in enumerate(batch.seqs):
                is_unknown = (batch.producer, 0, seq) in unknown
                intended_us = START_US + seq * interval_us
                self._row(
                    "send",
                    producer=batch.producer,
                    incarnation=0,
                    seq=seq,
                    partition=batch.partition,
                    status=SendStatus.UNKNOWN if is_unknown else SendStatus.ACKED,
                    error=-1 if is_unknown else 0,
                    size_bytes=100,
                    intended_us=intended_us,
                    sent_us=intended_us + rng.randint(50, 400),
                    acked_us=min(batch.sent_us + self.service_us + rng.randint(0, 900), latest_us),
                    offset=-1 if is_unknown else batch.appended_at[0] + place,
                )
                self.truth.acked += not is_unknown
                self.truth.unknown += is_unknown

    def _write_logs(self, rng: random.Random, logs: dict[int, list[tuple[int, int, _Batch]]]) -> None:
        interval_us = SECOND_US * self.producers // self.rate_per_s
        rows: list[dict[str, int]] = []
        for partition, log in logs.items():
            end = 0
            for base, epoch, batch in log:
                end = base + len(batch.seqs)
                self._batch_row(partition, base, epoch, batch)
                for place, seq in enumerate(batch.seqs):
                    rows.append(
                        {
                            "partition": partition,
                            "offset": base + place,
                            "leader_epoch": epoch,
                            "batch_base_offset": base,
                            "producer": batch.producer,
                            "incarnation": 0,
                            "seq": seq,
                            "intended_us": START_US + seq * interval_us,
                            "crc_ok": 1,
                        }
                    )
            if partition == 0:
                for extra in range(self.damage.unexpected):
                    rows.append({**rows[-1], "offset": end + extra, "producer": 77, "seq": 1000 + 3 * extra})
                    self.truth.sets["unexpected"].add((77, 0, 1000 + 3 * extra))
        sound = [row for row in rows if row["producer"] != 77]
        for row in rng.sample(sound, self.damage.corrupt):
            row["crc_ok"] = 0
            self.truth.sets["corrupt"].add((row["producer"], 0, row["seq"]))
        for row in rows:
            self._row("log", **row)
        twice = rng.sample(sound, self.damage.dup_delivered)
        self.truth.sets["dup_delivered"] |= {(row["producer"], 0, row["seq"]) for row in twice}
        last_poll_us: dict[int, int] = defaultdict(int)
        for row in [*rows, *twice]:
            received = {k: row[k] for k in ("partition", "offset", "producer", "incarnation", "seq", "intended_us")}
            # Polls of a partition go forward, as a consumer's do; what is delivered twice comes after the rest.
            due_us = row["intended_us"] + 6_000 + rng.randint(0, 3_000)
            polled_us = last_poll_us[row["partition"]] = max(due_us, last_poll_us[row["partition"]])
            self._row("recv", consumer=row["partition"] % 2, generation=-1, polled_us=polled_us, crc_ok=1, **received)

    def _batch_row(self, partition: int, base: int, epoch: int, batch: _Batch) -> None:
        count = len(batch.seqs)
        self._row(
            "batches",
            partition=partition,
            base_offset=base,
            last_offset=base + count - 1,
            leader_epoch=epoch,
            records=count,
            size_bytes=61 + 50 * count,
            uncompressed_bytes=61 + 110 * count,
            codec=3,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            crc=batch.crc,
        )

    def _write_journal(self, logs: dict[int, list[tuple[int, int, _Batch]]], truncated: list[dict[str, Any]]) -> None:
        events = self.lines["cluster"]
        events += [{"t_us": 100_000, "broker": b, "kind": "started", "source": "process"} for b in (1, 2, 3)]
        for partition in range(self.partitions):
            common = {"source": "journal", "topic": "t", "partition": partition, "leader_epoch": 0, "t_us": 200_000}
            events.append({**common, "broker": 1 + partition % 3, "kind": "became_leader", "log_end_offset": 0})
            events.append({**common, "broker": 1 + partition % 3, "kind": "isr_changed", "isr": [1, 2, 3]})
        if self.damage.lost_batches:
            middle_us = START_US + self.seconds * SECOND_US // 2
            common = {"source": "journal", "topic": "t", "partition": 0}
            events.append(
                {**common, "t_us": middle_us, "broker": 2, "kind": "isr_changed", "leader_epoch": 1, "isr": [2, 3]}
            )
            events.append({"t_us": middle_us - 100_000, "broker": 1, "kind": "killed", "source": "process"})
            events.append({"t_us": middle_us + 250_000, "broker": 1, "kind": "started", "source": "process"})
        events += truncated
        if self.journal:
            for partition, log in logs.items():
                events += [
                    {
                        "t_us": batch.sent_us + 200,
                        "broker": 1,
                        "kind": "appended",
                        "source": "journal",
                        "topic": "t",
                        "partition": partition,
                        "leader_epoch": epoch,
                        "base_offset": base,
                        "last_offset": base + len(batch.seqs) - 1,
                        "crc": batch.crc,
                        "client_id": f"producer-{batch.producer}",
                        "correlation_id": batch.correlation_id,
                    }
                    for base, epoch, batch in log
                ]
        if self.kind == "chaos":
            middle_us = START_US + self.seconds * SECOND_US // 2
            fault = {
                "id": "f1",
                "kind": "kill" if self.damage.lost_batches else "toxic",
                "target": "leader",
                "resolved": ["1"],
            }
            self.lines["faults"] += [
                {**fault, "t_us": middle_us - 100_000, "phase": "applied", "detail": {}},
                {
                    **fault,
                    "t_us": middle_us - 50_000,
                    "phase": "proved" if self.proved else "not_effective",
                    "detail": {"proof": "process 4711 is gone"},
                },
                {**fault, "t_us": middle_us + 250_000, "phase": "healed", "detail": {}},
            ]

    def _count_truth(self, unknown: set[Identity]) -> None:
        for kind in ("lost", "duplicated", "reordered", "recovered", "unexpected", "corrupt", "dup_delivered"):
            self.truth.sets[kind] -= unknown if kind == "lost" else set()

    def cell_json(self) -> dict[str, Any]:
        end_us = START_US + self.seconds * SECOND_US
        expect = self.expect or {
            "lost": "predicted" if self.damage.lost_batches else "none",
            "duplicated": "predicted" if self.damage.duplicated_batches else "none",
            "reordered": "predicted" if self.damage.reordered_batches else "none",
        }
        return {
            "cell_id": self.cell_id,
            "kind": self.kind,
            "title": self.title or self.cell_id,
            "client": "reference",
            "engine": "reference",
            "repetition": 1,
            "order": 1,
            "scenario": "planted" if self.kind == "chaos" else None,
            "about": "The leader dies & a <follower> takes over." if self.kind == "chaos" else "",
            "note": "It never had the tail." if self.kind == "chaos" else "",
            "source": "a system test" if self.kind == "chaos" else "",
            "properties": {"acks": "1", "enable.idempotence": "false", **self.properties},
            "topic": {"name": "t", "partitions": self.partitions, "replication_factor": 3, "config": {}},
            "workload": {
                "rate_per_s": self.rate_per_s,
                "record_size_bytes": 100,
                "producers": self.producers,
                "consumers": 2,
            },
            "knobs": {},
            "baseline": False,
            "expect": expect,
            "proxied": self.kind == "chaos",
            "path": "embedded toxiproxy" if self.kind == "chaos" else "loopback",
            "seed": self.seed,
            "command": "harness run planted",
            "outcome": {
                "status": "done",
                "reason": "",
                "started_us": START_US - 500_000,
                "measure_start_us": START_US,
                "measure_end_us": end_us,
                "ended_us": end_us + 500_000,
                "producers": [],
                "health": {"schedule_lag_us_p99": 400, "cpu_share": 0.2, "stages": STAGES},
                "effective": {"client": {}, "topic": {}, "broker": {"min.insync.replicas": "1"}},
                "final_read": {"complete": True, "reason": "", "end_offsets": {}},
            },
            **self.document,
        }

    def write(self, run: Path) -> None:
        directory = run / "cells" / self.cell_id
        directory.mkdir(parents=True, exist_ok=True)
        for name in ("cluster", "faults", "wire", "stats"):
            text = "".join(json.dumps(line) + "\n" for line in self.lines[name])
            (directory / f"{name}.jsonl").write_text(text)
        for name in STREAMS:
            write_part(run, name, self.cell_id, {key: list(values) for key, values in self.columns[name].items()})
        document = {**self.cell_json(), "files": to_json(take_inventory(run, self.cell_id))}
        (directory / "cell.json").write_text(json.dumps(document))


def stage(mean_us: float, n: int = 5_000) -> dict[str, float]:
    """One stage as a load process tells it; its percentiles are plain multiples of the mean."""
    levels = {"p50_us": mean_us, "p90_us": 2 * mean_us, "p99_us": 4 * mean_us}
    return {"n": n, "mean_us": mean_us, **levels, "max_us": 8 * mean_us, "negative": 0}


STAGES = {
    "censored": {"failed": 0, "unknown": 0},
    "schedule_lag": stage(200), "send_to_append": stage(1_500), "append_to_ack": stage(800),
    "send_to_ack": stage(2_300), "intended_to_ack": stage(2_500), "append_to_poll": stage(600),
    "intended_to_poll": stage(2_300),
}  # fmt: skip


def write_run(run: Path, cells: list[SyntheticCell], **manifest: Any) -> Path:
    run.mkdir(parents=True, exist_ok=True)
    for cell in cells:
        cell.write(run)
    document = {
        "schema_version": SCHEMA_VERSION,
        "run_id": "planted",
        "status": "finished",
        "argv": ["harness", "run", "planted"],
        "versions": {"kafka-harness": "0.1.0", "python": "3.11"},
        "host": {"cpu_count": 2, "kernel": "Linux"},
        "seed": 7,
        "t0_monotonic_ns": T0_NS,
        "t0_wall": "2026-11-20T14:03:00Z",
        "engine": "reference",
        "cells": [cell.cell_id for cell in cells],
        **manifest,
    }
    (run / "manifest.json").write_text(json.dumps(document))
    return run
