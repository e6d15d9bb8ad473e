"""The tasks of a streams group (KIP-1071): one task for each partition index of each subtopology.

A task is active (it processes), standby (it keeps a copy of the state), or warm-up (it builds such a copy before it
becomes active). Values only; shown by tests/broker_coordinator/test_coordinator_streams_reconcile.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

TaskId: TypeAlias = tuple[str, int]  # the id of the subtopology, and the partition index
TaskMap: TypeAlias = Mapping[str, frozenset[int]]  # subtopology id -> partition indexes
EpochMap: TypeAlias = Mapping[str, Mapping[int, int]]  # subtopology id -> partition index -> assignment epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """The tasks of one member: its target assignment, or what it says that it owns."""

    active: TaskMap = field(default_factory=dict)
    standby: TaskMap = field(default_factory=dict)
    warmup: TaskMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTasks:
    """The tasks that the coordinator has given to one member. Each active task has the epoch in which the member got
    it."""

    active: EpochMap = field(default_factory=dict)
    standby: TaskMap = field(default_factory=dict)
    warmup: TaskMap = field(default_factory=dict)
