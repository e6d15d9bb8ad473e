"""The copiers' topic after the run: every copy with the transaction that its header names, and how that transaction
ended.

It is read like the final log, to the high watermark, and with aborted copies. The markers in the log decide, not
a consumer. Shown by tests/harness/test_harness_copies.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from broker.door.batches import RawBatch, control_key, decode_fetched
from broker.door.protocol import ProtocolError
from harness.run.evidence.final_read import LogReader
from harness.run.evidence.markers import ABORTED, COMMITTED, OPEN, outcome_of
from runlog.records.cell import CopiesRecord
from runlog.streams.parquet import write_part
from runlog.streams.payload import parse_fast
from runlog.streams.schema import ABSENT, COPIES

HEADER: Final = "copy"


def read_copies(
    run_dir: Path, cell_id: str, *, reader: LogReader, partitions: Iterable[int], is_compacted: bool = False
) -> CopiesRecord:
    """Reads all partitions into the stream `copies`. Never raises for errors of the cluster. An incomplete read says
    why. It is incomplete too if retention or compaction may have removed copies: nobody can tell which."""
    rows: list[list[int]] = []
    problems: list[str] = ["compaction may have removed copies"] if is_compacted else []
    for partition in partitions:
        try:
            end_offset = reader.end_offset(partition)
            start_offset = reader.start_offset(partition)
            rows += rows_of(partition, reader.batches(partition, end_offset, from_offset=start_offset))
            if start_offset := max(start_offset, reader.start_offset(partition)):
                problems.append(f"partition {partition}: the copies below offset {start_offset} were deleted")
        except (OSError, ProtocolError, RuntimeError, TimeoutError) as error:
            problems.append(f"partition {partition}: {type(error).__name__}: {error}")
    names = [column.name for column in COPIES.columns]
    if rows:
        write_part(run_dir, COPIES, cell_id, {name: [row[at] for row in rows] for at, name in enumerate(names)})
    outcomes = [row[-1] for row in rows]
    return CopiesRecord(
        complete=not problems,
        reason="; ".join(problems),
        committed=outcomes.count(COMMITTED),
        aborted=outcomes.count(ABORTED),
        open=outcomes.count(OPEN),
    )


def rows_of(partition: int, batches: Iterable[RawBatch]) -> list[list[int]]:
    """Rows of `copies` in the order of offsets. A marker ends all open copies of its producer id."""
    rows: list[list[int]] = []
    open_rows: dict[int, list[list[int]]] = {}
    for batch in batches:
        header = batch.header
        if header.is_control:
            outcome = outcome_of(control_key(batch))
            for row in open_rows.pop(header.producer_id, ()):
                row[-1] = outcome
            continue
        for offset, _timestamp, _key, value, headers in decode_fetched(batch):
            row = _row(partition, offset, value or b"", dict(headers).get(HEADER))
            rows.append(row)
            if header.is_transactional:
                open_rows.setdefault(header.producer_id, []).append(row)
            else:
                row[-1] = COMMITTED
    return rows


def _row(partition: int, offset: int, value: bytes, header: bytes | None) -> list[int]:
    producer, incarnation, seq, _intended_ns, crc_ok = parse_fast(value) or (ABSENT, ABSENT, ABSENT, 0, False)
    copier, start, number = _transaction_of(header)
    return [partition, offset, producer, incarnation, seq, int(crc_ok), copier, start, number, OPEN]


def _transaction_of(header: bytes | None) -> tuple[int, int, int]:
    parts = (header or b"").split(b"/")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return ABSENT, ABSENT, ABSENT
    copier, start, number = (int(part) for part in parts)
    return copier, start, number
