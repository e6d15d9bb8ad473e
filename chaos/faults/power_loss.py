"""power_loss: SIGKILL, and bytes that were not on the disk yet are removed. (`kill` does not touch the page cache.)

Bytes stay if they were fsynced, or if they are older than `writeback_ms`, because the operating system writes them by
itself (Linux after 30 s). With `torn_bytes`, this many bytes of the batch after the last durable one stay as well, as
in a torn write. Proved by the end of the process, and by the notes about its files with the bytes that each file lost.
Healing starts the broker on the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof, heal_each
from chaos.faults.processes import identities, prove_gone, start_again
from chaos.lease import ProcessIdentity


class PowerLoss:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._writeback_ms = int(parameters["writeback_ms"])
        self._torn_bytes = int(parameters["torn_bytes"])
        self._before: dict[int, ProcessIdentity] = {}
        self._dropped: dict[str, object] = {}
        self._accounted_files = 0

    def inject(self) -> None:
        port = self._context.port
        self._before = identities(port.brokers, self._context.brokers)
        for broker in self._context.brokers:
            port.processes.kill(broker)
        for broker in self._context.brokers:
            dropped = port.load.drop_unsynced(broker, writeback_ms=self._writeback_ms, torn_bytes=self._torn_bytes)
            self._dropped[f"broker {broker}"] = dropped
            self._accounted_files += len(dropped)

    def heal(self) -> None:
        heal_each(self._context.brokers, partial(start_again, self._context.port))

    def prove(self) -> Proof:
        gone = prove_gone(self._context.port.brokers, self._before)
        return Proof(
            # If everything was synced, nothing is dropped. Then the notes of the disk about its files are the proof.
            is_effective=gone.is_effective and self._accounted_files > 0,
            detail=gone.detail | {"dropped_bytes": self._dropped},
        )


SPEC = FaultSpec(
    name="power_loss",
    label="power lost",
    colour="#17202a",
    target_kind="broker",
    default_target="leader",
    make=PowerLoss,
    parameters={"writeback_ms": 30_000, "torn_bytes": 0},
)
