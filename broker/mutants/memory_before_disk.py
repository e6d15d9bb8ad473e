"""A voter answers, sends and publishes what it has decided, and writes it to the disk after that."""

from __future__ import annotations

from broker.controller.types import ControllerEvent
from broker.mutants import Patch
from broker.node.cluster.metadata import MetadataHost
from broker.node.process.clock import monotonic_ms
from broker.quorum.types import AppendEntries, Event, PersistQuorumState

_FOR_THE_DISK = (PersistQuorumState, AppendEntries)


def apply(patch: Patch) -> None:
    def _handle(self: MetadataHost, is_for_quorum: bool, event: Event | ControllerEvent) -> None:
        if not is_for_quorum:
            original(self, is_for_quorum, event)
            return
        actions = self.quorum.handle(event, monotonic_ms())  # type: ignore[arg-type]  # the flag tells
        for action in sorted(actions, key=lambda each: isinstance(each, _FOR_THE_DISK)):
            self._perform_quorum(action)

    original = patch.set(MetadataHost, "_handle", _handle)
