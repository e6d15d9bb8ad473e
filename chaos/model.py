"""A scenario: its timeline of steps, its cases, and what is expected of each. Read from YAML; unknown keys are errors.

Kafka's settings keep Kafka's names and are kept as text. The workload model checks `workload`, not this module.
"""

from __future__ import annotations

import difflib
import random
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from io import StringIO
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from ruamel.yaml import YAML

from chaos import conditions
from chaos.faults import FAULTS
from chaos.faults.base import FaultSpec, Parameter
from chaos.targets import TargetError, check_link_target

Expectation = Literal["none", "predicted", "exact", "any"]
Engine = Literal["reference", "kafka", "docker"]
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000}
WITHIN_MS_DEFAULT = 15_000
SWARM_REST_MS = 1_000  # between two faults on processes, so that the broker can come back


def duration_ms(value: object) -> object:
    """ "2s", "200 ms", "1.5s", "1m" to whole milliseconds."""
    if isinstance(value, str) and (found := _DURATION.fullmatch(value.strip())):
        return round(float(found[1]) * _UNIT_MS[found[2]])
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(f"give a unit: {value}ms or {value}s")
    raise ValueError(f"{value!r} is no duration: write 200ms, 1.5s or 1m")


def setting_text(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


Duration = Annotated[int, BeforeValidator(duration_ms), Field(ge=0, le=3_600_000)]
Settings = dict[str, Annotated[str, BeforeValidator(setting_text)]]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Expect(_Model):
    """For each kind of damage: `none`; `predicted`: exactly what is predicted, and at least one; `exact`: the same, but
    nothing is allowed too; `any`."""

    lost: Expectation = "none"
    duplicated: Expectation = "none"
    reordered: Expectation = "none"
    lost_unacked: Literal["none", "some"] = Field(
        default="none", description="some: lawful with acks=0, and there must be some"
    )
    passed_over: Literal["none", "some"] = Field(
        default="none", description="by a group; some: lawful, and there must be some (commit: before)"
    )


class Step(_Model):
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
    for_: Duration | None = Field(default=None, alias="for", description="heals by itself after so long")
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
            close = difflib.get_close_matches(self.fault or "", FAULTS, n=1)
            known = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(FAULTS)}"
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


_CRITERION = re.compile(r"(detect|elect|first ack|recover|gap) <= (\S.*)")
_AREA = re.compile(r"area <= (\d+) record-seconds")


class Criterion(_Model):
    """One limit: on a figure of recovery, `elect <= 5 s`, `area <= 2000 record-seconds`; or on the longest time of the
    measured window in which nothing was acknowledged, `gap <= 3 s`, which cells without a fault have too."""

    text: str
    figure: str
    limit: float = Field(description="seconds, or record-seconds for `area`")


def criterion(value: object) -> object:
    """From its text."""
    if not isinstance(value, str):
        return value
    words = " ".join(value.split())
    if found := _AREA.fullmatch(words):
        return Criterion(text=words, figure="area", limit=float(found[1]))
    if found := _CRITERION.fullmatch(words):
        limit_ms = duration_ms(found[2])
        assert isinstance(limit_ms, int)
        return Criterion(text=words, figure=found[1], limit=limit_ms / 1000)
    raise ValueError(
        f"{value!r} is no criterion: detect, elect, first ack, recover or gap <= a duration like 5s, "
        "or area <= N record-seconds"
    )


Criteria = tuple[Annotated[Criterion, BeforeValidator(criterion)], ...]


class Topic(_Model):
    partitions: int = Field(default=1, ge=1, le=1000)
    replication_factor: int = Field(default=3, ge=1, le=9)
    config: Settings = Field(default_factory=dict)


class Case(_Model):
    """One configuration under the scenario's faults. Its settings are added to those of the scenario and win
    over them."""

    title: str
    because: str = Field(default="", description="why this outcome is the right one")
    properties: Settings = Field(default_factory=dict, description="client properties")
    topic_config: Settings = Field(default_factory=dict)
    broker_settings: Settings = Field(default_factory=dict)
    workload: dict[str, Any] = Field(default_factory=dict)  # Any: checked by the workload model
    expect: Expect = Expect()
    criteria: Criteria = Field(default=(), description="limits on recovery and silence, beside the scenario's")


class SwarmFault(_Model):
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


class Swarm(_Model):
    """Faults drawn from a seed: `count` of them, beginning at random moments of `from` to `to` of the window.

    Faults on links may overlap. Faults on processes follow one another, so that a broker that is down is not taken down
    again.
    """

    count: int = Field(ge=1, le=50)
    from_: Duration = Field(alias="from")
    to: Duration
    faults: tuple[SwarmFault, ...] = Field(min_length=1)


def draw(swarm: Swarm, seed: int) -> tuple[Step, ...]:
    """The same steps for the same seed, in order of time."""
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


def _is_on_client_links(step: Step) -> bool:
    spec = step.spec
    if spec.target_kind not in ("link", "client_link", "client"):
        return False
    try:
        check_link_target(step.target or spec.default_target, only_clients=True)
    except TargetError:
        return False
    return True


def _can_carry_out(spec: FaultSpec, engine: str) -> bool:
    """Whatever reference brokers support, they also support in containers."""
    return not spec.engines or engine in spec.engines or (engine == "docker" and "reference" in spec.engines)


class Scenario(_Model):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str
    damage: Literal["loss", "duplication", "reordering", "none"]
    source: str = Field(description="where the scenario is from")
    description: str = ""
    tags: tuple[str, ...] = ()
    engines: tuple[Engine, ...] = Field(default=("reference", "kafka"), description="clusters that it can run on")
    clients: tuple[str, ...] = Field(default=(), description="clients that can do what it asks for; empty: all")
    brokers: int = Field(default=3, ge=1, le=9)
    topic: Topic = Topic()
    partition: int = Field(default=0, ge=0, description="whose leader and followers are meant")
    broker_settings: Settings = Field(default_factory=dict)
    properties: Settings = Field(default_factory=dict)
    workload: dict[str, Any] = Field(default_factory=dict)  # Any: checked by the workload model
    timeline: tuple[Step, ...] = Field(default=(), max_length=100)
    swarm: Swarm | None = None
    until_done: bool = Field(
        default=False, description="the load ends with the timeline instead of after measure_ms, which is the longest"
    )
    criteria: Criteria = ()
    cases: dict[str, Case] = Field(min_length=1)

    @model_validator(mode="after")
    def _steps_fit(self) -> Scenario:
        if not self.timeline and self.swarm is None:
            raise ValueError(
                "a scenario needs a `timeline`, a `swarm` or both; a control run has a step that only waits"
            )
        faults: set[str] = set()
        seen: set[str] = set()
        for step in self.timeline:
            if step.id in seen:
                raise ValueError(f"two steps have the id {step.id!r}")
            if step.after is not None and step.after not in seen:
                raise ValueError(f"step {step.id!r} comes after {step.after!r}, which is no earlier step")
            if step.heal is not None and step.heal not in faults:
                raise ValueError(f"step {step.id!r} heals {step.heal!r}, which is no earlier fault")
            seen.add(step.id)
            if step.fault:
                faults.add(step.id)
        for step in self._all_steps():
            unable = [engine for engine in self.engines if step.fault and not _can_carry_out(step.spec, engine)]
            if unable:
                raise ValueError(
                    f"fault {step.fault} works on {' and '.join(step.spec.engines)} only, and this scenario is for "
                    f"{', '.join(self.engines)}: write `engines: [{', '.join(step.spec.engines)}]`"
                )
        if self.partition >= self.topic.partitions:
            raise ValueError(f"partition {self.partition} with {self.topic.partitions} partitions")
        return self

    def properties_of(self, case: str) -> dict[str, str]:
        return {**self.properties, **self.cases[case].properties}

    def topic_config_of(self, case: str) -> dict[str, str]:
        return {**self.topic.config, **self.cases[case].topic_config}

    def broker_settings_of(self, case: str) -> dict[str, str]:
        return {**self.broker_settings, **self.cases[case].broker_settings}

    def criteria_of(self, case: str) -> Criteria:
        return (*self.criteria, *self.cases[case].criteria)

    def steps(self, seed: int) -> tuple[Step, ...]:
        """The timeline, then what the swarm draws from `seed`."""
        return self.timeline + (draw(self.swarm, seed) if self.swarm else ())

    @property
    def is_interposed(self) -> bool:
        """Whether Apache Kafka's processes need the interposer for one of its faults."""
        return any(step.fault and step.spec.is_interposed for step in self._all_steps())

    def host_problem(self, engine: str) -> str:
        """Why this host cannot carry it out on such a cluster; empty if it can."""
        for step in self._all_steps():
            if step.fault and (problem := step.spec.host_problem(engine)):
                return f"{step.fault}: {problem}"
        return ""

    def _all_steps(self) -> tuple[Step, ...]:
        """Each fault that may occur; the kinds of the swarm once each."""
        drawn = self.swarm.faults if self.swarm else ()
        return self.timeline + tuple(fault.step("check", 0, fault.for_[0]) for fault in drawn)

    @property
    def is_client_side(self) -> bool:
        """Needs only proxies between the clients and somebody's brokers: no process, no link between brokers, no broker
        setting, and no condition that only the owner of a cluster can observe."""
        steps = self._all_steps()
        return not (
            any(step.fault and not _is_on_client_links(step) for step in steps)
            or any(step.when and not conditions.is_seen_by_clients(step.when) for step in steps)
            or self.broker_settings
            or any(case.broker_settings for case in self.cases.values())
            or not {"reference", "kafka"} & set(self.engines)
        )

    @property
    def has_faults(self) -> bool:
        """False for a control run."""
        return self.swarm is not None or any(step.fault for step in self.timeline)

    def workload_of(self, case: str) -> dict[str, Any]:
        return {**self.workload, **self.cases[case].workload}


def parse_scenario(text: str) -> Scenario:
    """Raises pydantic.ValidationError, or ruamel's YAMLError."""
    document: Mapping[str, Any] = YAML(typ="safe", pure=True).load(StringIO(text))
    return Scenario.model_validate(document)


def builtin_scenarios() -> list[str]:
    entries = (resources.files("chaos") / "scenarios").iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))


@cache
def load_builtin(name: str) -> Scenario:
    """Raises KeyError with the names that exist. Read once in a process: the YAML parser takes 40 ms for one."""
    if name not in builtin_scenarios():
        raise KeyError(f"no scenario {name!r}, there are {', '.join(builtin_scenarios())}")
    return parse_scenario((resources.files("chaos") / "scenarios" / f"{name}.yaml").read_text(encoding="utf-8"))
