"""A scenario: its timeline of steps, its cases, and what is expected of each. Read from YAML; unknown keys are errors.

Kafka's settings keep Kafka's names and are kept as text. The workload model checks `workload`, not this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from io import StringIO
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator
from ruamel.yaml import YAML

from chaos import conditions
from chaos.criterion import Criteria
from chaos.faults.base import FaultSpec
from chaos.faults.disk import ONE_DIRECTORY
from chaos.faults.log_directories import NAME as LOG_DIRECTORY_EMPTIED
from chaos.faults.releases import RELEASE_CHANGES
from chaos.fields import Release, Settings, StrictModel
from chaos.step import Step
from chaos.swarm import Swarm, draw
from chaos.targets import TargetError, check_link_target

ANY_BROKER: Final = -1

Expectation = Literal["none", "predicted", "exact", "any"]
Engine = Literal["reference", "kafka", "docker"]


class Expect(StrictModel):
    """What is expected for each kind of damage.

    - `none`: no damage.
    - `predicted`: exactly the predicted damage, and at least one record.
    - `exact`: exactly the predicted damage, which may be none.
    - `any`: nothing is checked.
    """

    lost: Expectation = "none"
    duplicated: Expectation = "none"
    reordered: Expectation = "none"
    lost_unacked: Literal["none", "some"] = Field(
        default="none", description="some: lawful with acks=0, and there must be some"
    )
    passed_over: Literal["none", "some"] = Field(
        default="none", description="by a group; some: lawful, and there must be some (commit: before)"
    )


class Topic(StrictModel):
    partitions: int = Field(default=1, ge=1, le=1000)
    replication_factor: int = Field(default=3, ge=1, le=9)
    config: Settings = Field(default_factory=dict)


class Case(StrictModel):
    """One configuration under the scenario's faults. Its settings are added to those of the scenario and override
    them."""

    title: str
    because: str = Field(default="", description="why this outcome is the right one")
    properties: Settings = Field(default_factory=dict, description="client properties")
    topic_config: Settings = Field(default_factory=dict)
    broker_settings: Settings = Field(default_factory=dict)
    workload: dict[str, Any] = Field(default_factory=dict)  # Any: checked by the workload model
    since: Release | None = Field(default=None, description="first release of Apache Kafka that does what is expected")
    expect: Expect = Expect()
    criteria: Criteria = Field(default=(), description="limits on recovery and silence, beside the scenario's")


def _is_on_clients(step: Step) -> bool:
    """Whether the fault is on processes of the load, or on links that begin at clients."""
    spec = step.spec
    if spec.target_kind == "client":
        return True
    if not spec.is_of_links:
        return False
    try:
        check_link_target(step.target or spec.default_target, only_clients=True)
    except TargetError:
        return False
    return True


def _can_carry_out(spec: FaultSpec, engine: str) -> bool:
    """Whether clusters of this kind can carry out the fault. Reference brokers in containers can do all that reference
    brokers can do."""
    return not spec.engines or engine in spec.engines or (engine == "docker" and "reference" in spec.engines)


class Scenario(StrictModel):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    title: str
    damage: Literal["loss", "duplication", "reordering", "none"]
    source: str = Field(description="where the scenario is from")
    description: str = ""
    tags: tuple[str, ...] = ()
    engines: tuple[Engine, ...] = Field(default=("reference", "kafka"), description="clusters that it can run on")
    clients: tuple[str, ...] = Field(default=(), description="clients that can do what it asks for; empty: all")
    brokers: int = Field(default=3, ge=1, le=9)
    log_directories: int = Field(
        default=1, ge=1, le=9, description="of each broker; more if cluster.log_directories says so"
    )
    racks: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), max_length=9, description="of the brokers, in turn (broker.rack); empty: what cluster.racks says"
    )
    security: Literal["", "ssl", "sasl_plaintext", "sasl_ssl"] = Field(
        default="", description="of the clients' listeners, as cluster.security of a suite; empty: what the suite says"
    )
    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = Field(
        default="", description="as cluster.sasl.mechanism of a suite; empty: what the suite says"
    )
    authorization: bool = Field(
        default=False, description="the load is a user who may do what access control lists allow; needs SASL"
    )
    releases: tuple[Release, ...] = Field(
        default=(), max_length=9, description="of Apache Kafka, of the brokers in turn; empty: what --cluster says"
    )
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
            is_of_one = step.with_.get("directories") == ONE_DIRECTORY or step.fault == LOG_DIRECTORY_EMPTIED
            if is_of_one and self.log_directories == 1:
                raise ValueError(
                    f"step {step.id!r} strikes one log directory, and brokers have no other: write `log_directories: 2`"
                )
        if (self.authorization or self.sasl_mechanism) and not self.security.startswith("sasl"):
            raise ValueError("`sasl_mechanism` and `authorization` need `security: sasl_ssl` or sasl_plaintext")
        if self.partition >= self.topic.partitions:
            raise ValueError(f"partition {self.partition} with {self.topic.partitions} partitions")
        return self

    def properties_of(self, case: str) -> dict[str, str]:
        return {**self.properties, **self.cases[case].properties}

    def topic_config_of(self, case: str) -> dict[str, str]:
        return {**self.topic.config, **self.cases[case].topic_config}

    def broker_settings_of(self, case: str) -> dict[str, str]:
        return {**self.broker_settings, **self.cases[case].broker_settings}

    @property
    def later_releases(self) -> tuple[str, ...]:
        """Those of Apache Kafka to which its steps change brokers, in their order; an empty one is the default."""
        steps = [step for step in self.timeline if step.fault in RELEASE_CHANGES]
        return tuple(dict.fromkeys(str(step.with_.get("to", "")) for step in steps))

    def injects(self, fault: str) -> bool:
        return any(step.fault == fault for step in self._all_steps())

    def criteria_of(self, case: str) -> Criteria:
        return (*self.criteria, *self.cases[case].criteria)

    def steps(self, seed: int) -> tuple[Step, ...]:
        """The steps of the timeline, then those that the swarm draws from `seed`."""
        return self.timeline + (draw(self.swarm, seed) if self.swarm else ())

    @property
    def is_interposed(self) -> bool:
        """Whether Apache Kafka's processes need the interposer for one of its faults."""
        return any(step.fault and step.spec.is_interposed for step in self._all_steps())

    def host_problem(self, engine: str) -> str:
        """Why this host cannot run the scenario on such a cluster. Empty if it can."""
        for step in self._all_steps():
            if step.fault and (problem := step.spec.host_problem(engine)):
                return f"{step.fault}: {problem}"
        return ""

    def _all_steps(self) -> tuple[Step, ...]:
        """A step for each fault that may occur. Each kind of the swarm is there once."""
        drawn = self.swarm.faults if self.swarm else ()
        return self.timeline + tuple(fault.step("check", 0, fault.for_[0]) for fault in drawn)

    @property
    def is_client_side(self) -> bool:
        """Whether the scenario needs only the clients, and proxies between them and somebody else's brokers. Then it
        touches no process of a broker and no link between brokers, and has no condition that only the owner of a
        cluster can observe. The operator sets the settings of the brokers. They are compared before a run."""
        steps = self._all_steps()
        return not (
            any(step.fault and not _is_on_clients(step) for step in steps)
            or any(step.when and not conditions.is_seen_by_clients(step.when) for step in steps)
            or self.log_directories > 1
            or self.racks
            or self.security
            or not {"reference", "kafka"} & set(self.engines)
        )

    @property
    def is_for_fault_hosts(self) -> bool:
        """Whether the scenario needs only the clients' links and workers on the brokers' hosts. These workers end,
        pause and start brokers, and have proxies on the links between them. The operator sets the settings of the
        brokers. They are compared before a run."""
        steps = self._all_steps()
        return not (
            any(step.fault and step.spec.host_permit is None and not _is_on_clients(step) for step in steps)
            or any(step.when and conditions.is_of_files(step.when) for step in steps)
            or self.log_directories > 1
            or self.racks
            or self.security
            or not {"reference", "kafka"} & set(self.engines)
        )

    def host_actions(self) -> dict[str, frozenset[int]]:
        """The actions that workers on the brokers' hosts must be permitted, with the brokers of each action. No
        brokers: any broker may be the target."""
        found: dict[str, set[int]] = {}
        for step in self._all_steps():
            if step.fault is None or step.spec.target_kind != "broker":
                continue
            if (action := step.spec.host_word(step.with_)) is None:
                continue
            role, _, number = (step.target or step.spec.default_target).partition(":")
            brokers = found.setdefault(action, set())
            brokers |= {int(number)} if role == "broker" else {ANY_BROKER}
        return {action: frozenset(() if ANY_BROKER in brokers else brokers) for action, brokers in found.items()}

    def link_faults(self) -> tuple[tuple[str, str], ...]:
        """The faults on links, each with its target."""
        steps = (step for step in self._all_steps() if step.fault is not None)
        of_links = (step for step in steps if step.spec.is_of_links)
        found = ((step.spec.name, step.target or step.spec.default_target) for step in of_links)
        return tuple(dict.fromkeys(found))

    @property
    def has_faults(self) -> bool:
        """False for a control run."""
        return self.swarm is not None or any(step.fault for step in self.timeline)

    def workload_of(self, case: str) -> dict[str, Any]:
        return {**self.workload, **self.cases[case].workload}


def parse_scenario(text: str) -> Scenario:
    """Parse a scenario. Raises pydantic.ValidationError, or ruamel's YAMLError."""
    document: Mapping[str, Any] = YAML(typ="safe", pure=True).load(StringIO(text))
    return Scenario.model_validate(document)


def builtin_scenarios() -> list[str]:
    entries = (resources.files("chaos") / "scenarios").iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))


@cache
def load_builtin(name: str) -> Scenario:
    """A scenario of the package. Raises KeyError that lists the names. Each is read once per process, because the YAML
    parser takes 40 ms for one."""
    if name not in builtin_scenarios():
        raise KeyError(f"no scenario {name!r}, there are {', '.join(builtin_scenarios())}")
    return parse_scenario((resources.files("chaos") / "scenarios" / f"{name}.yaml").read_text(encoding="utf-8"))
