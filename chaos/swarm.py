"""Faults that are drawn from a seed, in addition to a scenario's own timeline."""

from __future__ import annotations

import random

from pydantic import Field, model_validator

from chaos.faults import FAULTS
from chaos.faults.base import Parameter
from chaos.fields import Duration, StrictModel
from chaos.step import Step

SWARM_REST_MS = 1_000  # pause between two faults on processes, so that the broker can come back


class SwarmFault(StrictModel):
    """One kind of fault that the swarm may draw."""

    fault: str
    target: str | None = None
    with_: dict[str, Parameter] = Field(default_factory=dict, alias="with")
    for_: tuple[Duration, Duration] = Field(alias="for", description="shortest and longest")

    @model_validator(mode="after")
    def _is_a_step(self) -> SwarmFault:
        self.step("check", 0, self.for_[0])
        if self.for_[0] > self.for_[1]:
            raise ValueError("`for` is [shortest, longest]")
        return self

    def step(self, step_id: str, at_ms: int, for_ms: int) -> Step:
        return Step.model_validate(
            {
                "id": step_id,
                "at": f"{at_ms}ms",
                "fault": self.fault,
                "target": self.target,
                "with": self.with_,
                "for": f"{for_ms}ms",
                "may_miss": True,
            }
        )


class Swarm(StrictModel):
    """`count` faults that are drawn from a seed. They begin at random times between `from` and `to`.

    Faults on links may overlap. A fault on a process begins only after the one before has ended, so that a broker that
    is down is not taken down again. So it may begin after `to`.
    """

    count: int = Field(ge=1, le=50)
    from_: Duration = Field(alias="from")
    to: Duration
    faults: tuple[SwarmFault, ...] = Field(min_length=1)


def draw(swarm: Swarm, seed: int) -> tuple[Step, ...]:
    """The steps for this seed, in order of time. Equal seeds give equal steps."""
    rng = random.Random(f"swarm/{seed}")
    steps: list[Step] = []
    processes_free_ms = swarm.from_
    moments = sorted(rng.randint(swarm.from_, swarm.to) for _ in range(swarm.count))
    for number, at_ms in enumerate(moments, start=1):
        chosen = rng.choice(swarm.faults)
        for_ms = rng.randint(*chosen.for_)
        if FAULTS[chosen.fault].target_kind in ("broker", "client"):
            at_ms = max(at_ms, processes_free_ms)
            processes_free_ms = at_ms + for_ms + SWARM_REST_MS
        steps.append(chosen.step(f"swarm-{number}-{chosen.fault.replace('_', '-')}", at_ms, for_ms))
    steps.sort(key=lambda step: step.at or 0)
    return tuple(steps)
