"""THE run-log schema: every column that load, harness and analysis exchange.

A stream has one name, one row layout on disk while running (fixed width, little endian) and one Arrow schema at rest.
Times are microseconds relative to the run's start on CLOCK_MONOTONIC; -1 means "did not happen" for a time or an
offset. This module imports no I/O. `tests/runlog/test_runlog_schema.py` shows that both layouts agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

# 2: appended_us in send and recv, reader in recv; null in parts written before. 3: cell.json lists the cell's files.
SCHEMA_VERSION = 3
ABSENT = -1


class SendStatus(IntEnum):
    """What the client may claim about one send. `UNKNOWN` is neither lost nor delivered. A record that was sent in a
    transaction is `ACKED` when the commit was answered, and `ABORTED` if nothing of the transaction is committed."""

    ACKED = 0
    FAILED = 1
    UNKNOWN = 2
    ABORTED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One field: its name, its struct code while running and its Arrow type name at rest."""

    name: str
    struct_code: str
    arrow_type: str
    meaning: str
    default: int | None = (
        None  # what a part holds that was written without this column, by an older version; else needed
    )

    @property
    def unit(self) -> str:
        """Empty for what is a number of something, a code or a name."""
        return next((unit for ending, unit in _UNITS.items() if self.name.endswith(ending)), "")


_UNITS = {"_us": "microseconds since the run's start, -1 if it did not happen", "_bytes": "bytes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    name: str
    columns: tuple[Column, ...]
    live: bool  # written row by row into a mmap segment while running

    @property
    def struct_format(self) -> str:
        return "<" + "".join(column.struct_code for column in self.columns)


def _column(name: str, struct_code: str, meaning: str, default: int | None = None) -> Column:
    arrow_type = {"h": "int16", "i": "int32", "q": "int64", "b": "int8", "I": "int64", "d": "float64"}[struct_code]
    return Column(name=name, struct_code=struct_code, arrow_type=arrow_type, meaning=meaning, default=default)


_APPENDED_US = _column(
    "appended_us", "q", "the leader's LogAppendTime, whole ms; -1 unless the topic has that timestamp type", ABSENT
)


_IDENTITY = (
    _column("producer", "h", "producer user, unique in the cell"),
    _column("incarnation", "i", "grows when that producer is restarted"),
    _column("seq", "q", "dense per (producer, incarnation), from 0"),
)

SEND = Stream(
    name="send",
    live=True,
    columns=(
        *_IDENTITY,
        _column("partition", "h", "partition acknowledged, or asked for; -1 unknown"),
        _column(
            "status",
            "b",
            "0 acknowledged, or committed; 1 failed: certainly not appended; 2 unknown: no answer, or none asked for "
            "(acks=0); 3 its transaction was aborted: as the workload planned it (error 0), or for this error",
        ),
        _column("error", "h", "Kafka error code, or -1 for a client-local error; 0 none"),
        _column("size_bytes", "i", "value bytes"),
        _column("intended_us", "q", "when the schedule wanted it sent"),
        _column("sent_us", "q", "when it was handed to the client"),
        _column("acked_us", "q", "when its outcome was known; the same for all that is decided with a transaction"),
        _column("offset", "q", "offset in the acknowledgement, -1 if none"),
        _APPENDED_US,
    ),
)

RECV = Stream(
    name="recv",
    live=True,
    columns=(
        _column("consumer", "h", "consumer user, unique in the cell"),
        _column("generation", "i", "group generation, -1 with assign"),
        _column("partition", "h", "partition"),
        _column("offset", "q", "offset"),
        *_IDENTITY,
        _column("intended_us", "q", "copied from the payload"),
        _column("polled_us", "q", "when poll returned it"),
        _column("crc_ok", "b", "1 if the payload's own CRC matched"),
        _APPENDED_US,
        _column("reader", "h", "number of the reader group in the workload; each reads everything", 0),
    ),
)

LOG = Stream(
    name="log",
    live=False,
    columns=(
        _column("partition", "h", "partition"),
        _column("offset", "q", "offset"),
        _column("leader_epoch", "i", "leader epoch of the batch"),
        _column("batch_base_offset", "q", "base offset of the batch it came in"),
        *_IDENTITY,
        _column("intended_us", "q", "copied from the payload"),
        _column("crc_ok", "b", "1 if the payload's own CRC matched"),
    ),
)

BATCHES = Stream(
    name="batches",
    live=False,
    columns=(
        _column("partition", "h", "partition"),
        _column("base_offset", "q", "first offset"),
        _column("last_offset", "q", "last offset"),
        _column("leader_epoch", "i", "leader epoch"),
        _column("records", "i", "records in the batch"),
        _column("size_bytes", "i", "bytes in the log, header included"),
        _column("uncompressed_bytes", "i", "bytes it would have with compression none, header included"),
        _column("codec", "b", "0 none 1 gzip 2 snappy 3 lz4 4 zstd"),
        _column("producer_id", "q", "idempotent producer id, -1 none"),
        _column("producer_epoch", "h", "its epoch, -1 none"),
        _column("base_sequence", "i", "its first sequence, -1 none"),
        _column("crc", "I", "CRC-32C of the batch"),
    ),
)

COPIES = Stream(
    name="copies",
    live=False,
    columns=(
        _column("partition", "h", "partition of the copiers' topic"),
        _column("offset", "q", "offset there"),
        *_IDENTITY,
        _column("crc_ok", "b", "1 if the payload's own CRC matched"),
        _column("copier", "h", "consumer number of the copier, from the record's header; -1 none"),
        _column("copier_incarnation", "i", "start of the copier, from the header; -1 none"),
        _column("txn", "q", "number of the transaction within that start, from the header; -1 none"),
        _column("outcome", "b", "what its marker in the log says: 1 committed, 0 aborted, -1 open at the end"),
    ),
)

# Records of the load in the topic that no commit marker makes valid: `log` has the others.
UNCOMMITTED = Stream(
    name="uncommitted",
    live=False,
    columns=(
        _column("partition", "h", "partition"),
        _column("offset", "q", "offset"),
        *_IDENTITY,
        _column("crc_ok", "b", "1 if the payload's own CRC matched"),
        _column("outcome", "b", "what its marker in the log says: 0 aborted, -1 open at the end"),
    ),
)

AUDIT = Stream(name="audit", live=False, columns=RECV.columns)  # `recv` of those who read the copiers' topic

STREAMS: dict[str, Stream] = {stream.name: stream for stream in (SEND, RECV, LOG, BATCHES, COPIES, UNCOMMITTED, AUDIT)}
