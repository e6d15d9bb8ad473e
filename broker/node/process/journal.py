"""The journal: what happened to this broker, as one JSON object in each line. The harness uses it to predict damage.

Kinds and fields are those of docs/internals/contracts.md. Each event is one write(2), so SIGKILL loses none. Events are
not synced to disk, because no fault crashes the host. Times are CLOCK_MONOTONIC in nanoseconds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path


class Journal:
    def __init__(self, path: Path | None, *, broker_id: int, with_appends: bool) -> None:
        self._broker_id = broker_id
        self.with_appends = with_appends and path is not None
        self._descriptor: int | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, kind: str, **facts: object) -> None:
        if self._descriptor is None:
            return
        event = {"mono_ns": time.monotonic_ns(), "broker": self._broker_id, "kind": kind, **facts}
        line = json.dumps(event, separators=(",", ":")).encode() + b"\n"
        os.write(self._descriptor, line)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    # -- kinds that are written at more than one place ---------------------------------------------------------------

    def became_leader(self, *, topic: str, partition: int, leader_epoch: int, log_end_offset: int) -> None:
        self.write(
            "became_leader",
            topic=topic,
            partition=partition,
            leader_epoch=leader_epoch,
            log_end_offset=log_end_offset,
        )

    def became_follower(self, *, topic: str, partition: int, leader_epoch: int, leader: int) -> None:
        self.write("became_follower", topic=topic, partition=partition, leader_epoch=leader_epoch, leader=leader)

    def isr_changed(self, *, topic: str, partition: int, leader_epoch: int, isr: Sequence[int]) -> None:
        self.write("isr_changed", topic=topic, partition=partition, leader_epoch=leader_epoch, isr=list(isr))

    def truncated(
        self,
        *,
        topic: str,
        partition: int,
        leader_epoch: int,
        from_offset: int,
        to_offset: int,
        restarted_at: int | None = None,
    ) -> None:
        """Records with to_offset <= offset < from_offset are gone. `leader_epoch` is the epoch of these records.
        `restarted_at`: the log begins anew at the leader's log start offset, and these records lie below it."""
        more = {} if restarted_at is None else {"restarted_at": restarted_at}
        self.write(
            "truncated",
            topic=topic,
            partition=partition,
            leader_epoch=leader_epoch,
            from_offset=from_offset,
            to_offset=to_offset,
            **more,
        )
