"""What a fault is. It can inject, heal and prove. It has a label and a colour for plots, parameters, and a kind of
target.

A fault writes its lease before it acts. `heal` may be called at any time, also after an `inject` that failed half-way,
and more than once. `prove` returns evidence that the fault takes effect. The evidence is measured and not assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar, runtime_checkable

from chaos.lease import Lease
from chaos.port import ClusterPort
from chaos.targets import (
    PartitionOfInterest,
    check_broker_target,
    check_client_target,
    check_joint,
    check_link_target,
    check_topic_target,
    resolve_brokers,
    resolve_clients,
    resolve_links,
)

Item = TypeVar("Item")
Parameter = int | str
TargetKind = Literal["broker", "link", "client_link", "client", "topic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    is_effective: bool
    detail: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultContext:
    """What one run of a fault works on: broker ids, link names, or names of client processes."""

    port: ClusterPort
    lease: Lease | None
    brokers: tuple[int, ...] = ()
    links: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    toxic_name: str
    of: PartitionOfInterest


def heal_each(items: Iterable[Item], heal: Callable[[Item], object]) -> None:
    """Heal all items, in this order, also if one fails. What failed is then raised, the last of several."""
    with ExitStack() as stack:
        for item in reversed(list(items)):
            stack.callback(heal, item)


class FaultRun(Protocol):
    def inject(self) -> None: ...

    def heal(self) -> None: ...

    def prove(self) -> Proof: ...


@runtime_checkable
class Compares(Protocol):
    """A fault whose proof compares with the time before. Otherwise a busy host could look like the effect of the
    fault."""

    def observe(self) -> None:
        """Called before `inject`. Measures what `prove` compares with. It changes nothing."""


def _any_host(engine: str) -> str:
    return ""


def _no_problem(parameters: Mapping[str, Parameter]) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """One entry of the table of faults."""

    name: str
    label: str
    colour: str
    target_kind: TargetKind
    default_target: str
    make: Callable[[FaultContext, Mapping[str, Parameter]], FaultRun]
    parameters: Mapping[str, Parameter]  # parameters with their defaults
    # Most faults show at once. Faults that wait for traffic can be proved only when they end.
    is_proved_at_heal: bool = False
    # The clusters that can carry it out; empty: all of them.
    engines: tuple[str, ...] = ()
    # Whether Apache Kafka's processes need the interposer for it (chaos/interposer).
    is_interposed: bool = False
    # Says why this host cannot carry it out on such a cluster; empty if it can.
    host_problem: Callable[[str], str] = _any_host
    # Says what is wrong with parameters whose names and types are right.
    problem: Callable[[Mapping[str, Parameter]], str | None] = _no_problem

    def check_target(self, target: str) -> None:
        """Raises TargetError."""
        if self.target_kind == "broker":
            check_broker_target(target)
        elif self.target_kind == "client":
            check_client_target(target)
        elif self.target_kind == "topic":
            check_topic_target(target)
        else:
            check_link_target(target, only_clients=self.target_kind == "client_link")

    def context(
        self, target: str, port: ClusterPort, of: PartitionOfInterest, lease: Lease | None, toxic_name: str
    ) -> FaultContext:
        """Resolve the target now. Raises TargetError."""
        if self.target_kind == "broker":
            return FaultContext(
                port=port, lease=lease, brokers=resolve_brokers(target, port, of), toxic_name=toxic_name, of=of
            )
        if self.target_kind == "client":
            clients = resolve_clients(target, port)
            return FaultContext(port=port, lease=lease, clients=clients, toxic_name=toxic_name, of=of)
        if self.target_kind == "topic":
            return FaultContext(port=port, lease=lease, toxic_name=toxic_name, of=of)
        links = resolve_links(target, port, of)
        if (there := port.host_links()) is not None:
            check_joint(links, there.joint_links())
        return FaultContext(port=port, lease=lease, links=links, toxic_name=toxic_name, of=of)
