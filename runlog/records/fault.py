"""Lines of faults.jsonl: what a scenario's timeline did, and how it was proved to have had an effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

WAIT: Final = "wait"  # the kind of a line that tells of a wait and not of a fault
PLANNED_US: Final = "planned_us"  # in `detail` of an applied line whose step has `at`: when it was to begin


class FaultPhase(StrEnum):
    APPLIED = "applied"
    PROVED = "proved"  # a fault counts as effective only with this line
    NOT_EFFECTIVE = "not_effective"
    MISSED = "missed"  # a step of a swarm found no target, or no proof
    HEALED = "healed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultLine:
    t_us: int
    id: str  # The scenario's step has this id.
    kind: str  # name of the fault (`harness list faults`), or wait
    target: str = ""  # as the scenario says it
    resolved: tuple[str, ...] = ()  # brokers, links or clients that it meant
    phase: FaultPhase
    detail: Mapping[str, Any] = field(default_factory=dict)  # label and colour for plots, and what the fault saw

    @property
    def label(self) -> str | None:
        found = self.detail.get("label")
        return None if found is None else str(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsDeletedProof:
    """`detail` of a proved records_deleted: what lies below start_offset is gone."""

    partition: int
    start_offset: int  # The leader's log begins there afterwards.
    wanted: int | None = None  # the offset that was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecreatedProof:
    """`detail` of a proved topic_recreated. Times count from the `applied` line."""

    gone_us: int  # the last broker had forgotten the old topic
    created_us: int  # the new one was asked for
    ends: Mapping[int, int]  # partition -> end offset when the deletion was asked for
