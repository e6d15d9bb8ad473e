"""The wire log: one JSON line for each record batch of each Produce exchange, written when its outcome is known.

The record is in runlog/records/wire.py. A thread writes the lines (log_file.py), so a killed server may lose the last
ones and leave one incomplete line. No error of the log reaches the traffic.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from broker.door.batches import decode_records
from broker.door.protocol import CorruptBatchError
from chaos.toxiproxy.kafka.log_file import LogFile
from chaos.toxiproxy.kafka.produce import Batch, PartitionResult, ProduceRequest
from runlog.records.codec import to_json
from runlog.records.wire import IdentityRun, WireExchange, WireOutcome
from runlog.streams.payload import identity_of

ATTEMPTS_MAX = 200_000  # batches that are remembered to number their attempts; the oldest are forgotten first

RECORDS_MAX = 10_000  # Limit for a batch whose records are read. To decode more would block the proxy.
_UNPACKED_BYTES_MAX = 16 << 20  # Limit for the same reason. Our broker accepts as many from a producer.


Identities = tuple[IdentityRun, ...] | None


def identity_runs(batch: Batch, frame: bytes) -> Identities:
    """The identities in a batch of the frame, as runs of consecutive records. None if the records are not ours.

    A client may send refused records again in another batch, with another CRC. Only the identities show that.
    """
    if not 0 < batch.records <= RECORDS_MAX or batch.end <= batch.start:
        return None
    try:
        records = decode_records(memoryview(frame)[batch.start : batch.end], decompressed_bytes_max=_UNPACKED_BYTES_MAX)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A request that will get lines: how often each batch was seen, and the identities in it."""

    request: ProduceRequest
    attempts: tuple[int, ...]
    identities: tuple[Identities, ...]


class WireLog:
    """The wire log. All proxies of a server share it, because a retry may come through another broker's proxy."""

    def __init__(self, path: Path | None) -> None:
        self._file = LogFile(path, "wire_log")
        self._attempts: OrderedDict[tuple[str, str, int, int], int] = OrderedDict()

    @property
    def is_open(self) -> bool:
        """Whether lines are written."""
        return self._file.is_open

    def problem_after(self, timeout_s: float) -> str:
        """Why lines are missing in the file; empty if it has all lines until now. Waits for the disk, at most
        `timeout_s`."""
        return self._file.problem_after(timeout_s)

    def resume(self) -> None:
        """A new record begins, so the log tries again if it had stopped."""
        self._file.resume()

    def note(self, request: ProduceRequest, frame: bytes, *, is_armed: bool) -> Noted | None:
        """What the lines of this request will say, so that nobody must keep its bytes. Call it once when it arrives.
        None: it gets no lines. A retry of a batch gets some even if the log is not armed any more."""
        if not self.is_open:
            return None
        try:
            attempts = tuple(self._count(request.client_id, batch) for batch in request.batches)
            if not is_armed and max(attempts, default=1) == 1:
                return None
            return Noted(
                request=request,
                attempts=attempts,
                identities=tuple(identity_runs(batch, frame) for batch in request.batches),
            )
        except Exception as error:  # whatever it is: the request of somebody else passes
            self.stop(f"a request cannot be written down: {type(error).__name__}: {error}")
            return None

    def _count(self, client_id: str, batch: Batch) -> int:
        key = (client_id, batch.topic, batch.partition, batch.crc)
        attempt = self._attempts.pop(key, 0) + 1
        self._attempts[key] = attempt
        if len(self._attempts) > ATTEMPTS_MAX:
            self._attempts.popitem(last=False)
        return attempt

    def write(
        self,
        noted: Noted,
        *,
        mono_ns: int,
        proxy: str,
        connection: int,
        outcome: WireOutcome,
        results: Mapping[tuple[str, int], PartitionResult],
        is_forwarded: bool,
        answered_ns: int,
        followers: int | None,
        held_us: int | None,
    ) -> None:
        """Write one line for each batch of the request. Only a refused request has `followers` and `held_us`."""
        if not self.is_open:
            return
        request, lines = noted.request, []
        try:
            for batch, attempt, identities in zip(request.batches, noted.attempts, noted.identities, strict=True):
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
                        identities=identities,
                    )
                )
                del line["t_us"]  # a proxy does not know the time of the run; it is added when the line is copied
                lines.append(json.dumps(line, separators=(",", ":")) + "\n")
            self._file.put("".join(lines).encode())
        except Exception as error:  # as in `note`
            self.stop(f"an exchange cannot be written down: {type(error).__name__}: {error}")

    def stop(self, problem: str) -> None:
        """Write nothing more, because of `problem`."""
        self._file.stop(problem)

    def close(self) -> None:
        self._file.close()
