"""A member's journal: one JSON line for each thing that it did, in one write(2), so that a SIGKILL tears none.

Written by the member's own thread after the fact: a record stands in it when the application is done with it. The
kinds of lines are the methods here; Journal.java writes the same.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runlog.files.json_lines import JsonlWriter
from workloads.clients.member_protocol import Partition, Positions
from workloads.clients.protocol import ReceivedRecord


class MemberJournal:
    """Also the client's MemberListener."""

    def __init__(self, path: Path) -> None:
        self._writer = JsonlWriter(path)

    def _write(self, kind: str, **values: Any) -> None:  # JSON's values
        self._writer.append({"mono_ns": time.monotonic_ns(), "kind": kind, **values})

    def started(self) -> None:
        self._write("started")

    def assigned(self, partitions: Sequence[Partition], generation: int) -> None:
        self._write("assigned", generation=generation, partitions=partitions)

    def revoked(self, partitions: Sequence[Partition]) -> None:
        self._write("revoked", partitions=partitions)

    def committed(self, positions: Positions) -> None:
        self._write("committed", offsets=[[*partition, offset] for partition, offset in positions.items()])

    def delivered(self, records: Sequence[ReceivedRecord], polled_ns: int) -> None:
        """Records that the application is done with. `polled_ns` is when poll returned them."""
        rows = [
            [topic, p, offset, at_ms, base64.b64encode(value).decode()] for topic, p, offset, value, at_ms in records
        ]
        self._write("delivered", polled_ns=polled_ns, records=rows)

    def transaction_began(self, number: int, records: int) -> None:
        self._write("transaction_began", number=number, records=records)

    def transaction(self, number: int, outcome: str, *, asked_ns: int, reason: str = "") -> None:
        """`asked_ns` is when its end was asked for; `outcome` is committed, aborted or unknown."""
        self._write("transaction", number=number, outcome=outcome, asked_ns=asked_ns, reason=reason)

    def renewed(self, reason: str) -> None:
        """A copier's producer could not be used any more and was replaced."""
        self._write("renewed", reason=reason)

    def problem(self, message: str) -> None:
        self._write("problem", message=message)

    def left(self) -> None:
        self._write("left")

    def close(self) -> None:
        self._writer.close()
