"""Copies a cell's share of the proxies' wire log into the cell's wire.jsonl, with t_us added.

The Kafka-aware server writes one file for all cells on its cluster; a cell owns the lines written while it runs.
"""

from __future__ import annotations

from pathlib import Path

from runlog.files.clock import RunClock
from runlog.records.lines import WIRE, RecordWriter


class WireLogTail:
    def __init__(self, source: Path | None, target: Path, clock: RunClock) -> None:
        self._source, self._clock = source, clock
        self._position = source.stat().st_size if source is not None and source.exists() else 0
        self._rest = b""
        self._writer = RecordWriter(target, WIRE) if source is not None else None

    def step(self) -> None:
        if self._source is None or self._writer is None or not self._source.exists():
            return
        with self._source.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        self._position += len(data)
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._writer.copy(line, t0_monotonic_ns=self._clock.t0_monotonic_ns)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
