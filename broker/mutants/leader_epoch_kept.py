"""A change of leader does not raise the leader epoch."""

from __future__ import annotations

import dataclasses
from typing import Any

from broker.controller import elections, partitions
from broker.mutants import Patch


def apply(patch: Patch) -> None:
    def change_partition(*values: Any, **options: Any) -> Any:
        change = original(*values, **options)
        return None if change is None else dataclasses.replace(change, new_leader_epoch=False)

    original = patch.set(elections, "change_partition", change_partition)
    patch.set(partitions, "change_partition", change_partition)
