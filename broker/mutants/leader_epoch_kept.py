"""A change of leader does not raise the leader epoch."""

from __future__ import annotations

import dataclasses
from typing import Any

from broker.controller import partitions, replay
from broker.mutants import Patch


def apply(patch: Patch) -> None:
    def apply_change(state: Any, change: Any) -> Any:
        return dataclasses.replace(original(state, change), leader_epoch=state.leader_epoch)

    original = patch.set(replay, "apply_change", apply_change)
    patch.set(partitions, "apply_change", apply_change)
