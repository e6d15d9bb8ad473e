"""One step of a scenario's timeline: a fault, its end, or a wait. A step that cannot work is refused when it is read.

Shown by tests/chaos/test_chaos_timeline.py.
"""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from chaos import conditions
from chaos.faults import FAULTS
from chaos.faults.base import FaultSpec, Parameter
from chaos.fields import Duration, StrictModel
from chaos.targets import TargetError
from runlog.files.nearest import nearest_name

WITHIN_MS_DEFAULT = 15_000
# Names of Toxiproxy that people write as faults; the same list for readers is in docs/start/coming-from.md.
_OF_TOXICS = {spec.host_permit.toxic: spec.name for spec in FAULTS.values() if spec.host_permit}


class Step(StrictModel):
    """One step. It starts when the previous one has ended and its own trigger (`at`, `when`, `after`) has come.

    It injects a `fault`, ends one (`heal`), or only waits (neither, with `when`).
    """

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")
    fault: str | None = None
    heal: str | None = Field(default=None, description="id of the step whose fault ends")
    target: str | None = None
    with_: dict[str, Parameter] = Field(default_factory=dict, alias="with")
    at: Duration | None = Field(default=None, description="from the start of the measured window")
    when: str | None = None
    after: str | None = Field(default=None, description="id of an earlier step; `delay` counts from its end")
    delay: Duration = 0
    within: Duration = Field(default=WITHIN_MS_DEFAULT, description="limit on waiting for `when`")
    for_: Duration | None = Field(default=None, alias="for", description="time after which it heals by itself")
    may_miss: bool = Field(
        default=False, description="go on if nobody has the target's role or the effect cannot be shown (swarms)"
    )

    @field_validator("when")
    @classmethod
    def _condition_exists(cls, value: str | None) -> str | None:
        if value is not None:
            conditions.parse(value)
        return value

    @model_validator(mode="after")
    def _is_one_thing(self) -> Step:
        if self.fault and self.heal:
            raise ValueError("a step has either `fault` or `heal`")
        if sum(trigger is not None for trigger in (self.at, self.when, self.after)) > 1:
            raise ValueError("a step has one trigger: `at`, `when` or `after`")
        if not self.fault and not self.heal and self.at is None and self.when is None and self.after is None:
            raise ValueError("a step without `fault` or `heal` needs something to wait for: `when`, `at` or `after`")
        if not self.fault and (self.target or self.with_ or self.for_ is not None):
            raise ValueError("`target`, `with` and `for` belong to a `fault`")
        if self.fault:
            self._check_fault()
        return self

    def _check_fault(self) -> None:
        spec = FAULTS.get(self.fault or "")
        if spec is None:
            toxic, near = _OF_TOXICS.get(self.fault or ""), nearest_name(self.fault or "", FAULTS)
            known = f"did you mean {near!r}?" if near else f"there are {', '.join(FAULTS)}"
            known = f"Toxiproxy's toxic of that name is the fault {toxic!r} here" if toxic else known
            raise ValueError(f"unknown fault {self.fault!r}; {known}")
        try:
            spec.check_target(self.target or spec.default_target)
        except TargetError as error:
            raise ValueError(str(error)) from error
        for name, value in self.with_.items():
            if name not in spec.parameters:
                raise ValueError(f"fault {spec.name} has no parameter {name!r}, it has {', '.join(spec.parameters)}")
            if type(value) is not type(spec.parameters[name]):
                raise ValueError(f"{name} of {spec.name} is like {spec.parameters[name]!r}, got {value!r}")
        if problem := spec.problem({**spec.parameters, **self.with_}):
            raise ValueError(problem)

    @property
    def spec(self) -> FaultSpec:
        assert self.fault is not None
        return FAULTS[self.fault]
