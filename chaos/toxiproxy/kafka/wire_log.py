"""The wire log: one JSON line for each record batch of each Produce exchange, written when its outcome is known.

The record is in runlog/records/wire.py. The lines of an exchange are one write(2), so a killed server leaves at most
one incomplete line, the last one.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

from broker.wire.errors import CorruptBatchError
from broker.wire.records import decode_records
from chaos.toxiproxy.kafka.produce import Batch, PartitionResult, ProduceRequest
from runlog.records.codec import to_json
from runlog.records.wire import IdentityRun, WireExchange, WireOutcome
from runlog.streams.payload import identity_of

ATTEMPTS_MAX = 200_000  # batches that are remembered to number their attempts; the oldest are forgotten first

RECORDS_MAX = 10_000  # Limit for a batch whose records are read. To decode more would block the proxy.
_UNPACKED_BYTES_MAX = 16 << 20  # Limit for the same reason. Our broker accepts as many from a producer.


def identity_runs(batch: Batch) -> tuple[IdentityRun, ...] | None:
    """The identities in the batch, as runs of consecutive records. None if the records are not ours.

    A client may send refused records again in another batch, with another CRC. Only the identities show that.
    """
    if not 0 < batch.records <= RECORDS_MAX or batch.end <= batch.start:
        return None
    try:
        records = decode_records(
            memoryview(batch.frame)[batch.start : batch.end], decompressed_bytes_max=_UNPACKED_BYTES_MAX
        )
    # The bytes are not ours, or are damaged. They have no identity, and this does no harm.
    except (CorruptBatchError, ValueError, OverflowError):
        return None
    runs: list[IdentityRun] = []
    for _offset, _timestamp, _key, value, _headers in records:
        identity = identity_of(value or b"")
        if identity is None:
            return None
        producer, incarnation, seq = identity
        if runs and runs[-1][:2] == (producer, incarnation) and runs[-1][3] + 1 == seq:
            runs[-1] = (producer, incarnation, runs[-1][2], seq)
        else:
            runs.append((producer, incarnation, seq, seq))
    return tuple(runs)


class WireLog:
    """The wire log. All proxies of a server share it, because a retry may come through another broker's proxy."""

    def __init__(self, path: Path | None) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if path else None
        self.is_open = path is not None
        self._attempts: OrderedDict[tuple[str, str, int, int], int] = OrderedDict()

    def count_attempts(self, request: ProduceRequest) -> tuple[int, ...]:
        """How often each batch of the request has been seen, including this time. Call it once when a request
        arrives."""
        return tuple(self._count(request.client_id, batch) for batch in request.batches)

    def _count(self, client_id: str, batch: Batch) -> int:
        key = (client_id, batch.topic, batch.partition, batch.crc)
        attempt = self._attempts.pop(key, 0) + 1
        self._attempts[key] = attempt
        if len(self._attempts) > ATTEMPTS_MAX:
            self._attempts.popitem(last=False)
        return attempt

    def write(
        self,
        *,
        mono_ns: int,
        proxy: str,
        connection: int,
        request: ProduceRequest,
        attempts: tuple[int, ...],
        outcome: WireOutcome,
        results: Mapping[tuple[str, int], PartitionResult],
        is_forwarded: bool,
        answered_ns: int,
        followers: int | None,
        held_us: int | None,
    ) -> None:
        """Write one line for each batch of the request. Only a refused request has `followers` and `held_us`."""
        if self._file is None:
            return
        lines: list[str] = []
        for batch, attempt in zip(request.batches, attempts, strict=True):
            result = results.get((batch.topic, batch.partition))
            line = to_json(
                WireExchange(
                    mono_ns=mono_ns,
                    proxy=proxy,
                    connection=connection,
                    client_id=request.client_id,
                    correlation_id=request.correlation_id,
                    topic=batch.topic,
                    partition=batch.partition,
                    crc=batch.crc,
                    records=batch.records,
                    attempt=attempt,
                    acks=request.acks,
                    outcome=outcome,
                    base_offset=result.base_offset if result else -1,
                    error_code=result.error_code if result else -1,
                    forwarded=is_forwarded,
                    answered_ns=answered_ns,
                    followers=followers,
                    held_us=held_us,
                    identities=identity_runs(batch),
                )
            )
            del line["t_us"]  # a proxy does not know the time of the run; it is added when the line is copied
            lines.append(json.dumps(line, separators=(",", ":")) + "\n")
        os.write(self._file, "".join(lines).encode())

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file, self.is_open = None, False
