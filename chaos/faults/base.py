"""What a fault is. It can inject, heal and prove. It has a label and a colour for plots, parameters, and a kind of
target.

A fault writes its lease before it acts. `heal` may be called at any time, also after an `inject` that failed half-way,
and more than once. `prove` returns evidence that the fault takes effect. The evidence is measured and not assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar, runtime_checkable

from chaos.lease import Lease
from chaos.ports.cluster import ClusterPort
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
class HostPermit:
    """What the operator of somebody else's brokers must allow, so that a worker on their hosts may carry out a fault
    (`harness worker … --allow-faults`).

    The worker knows three acts on a broker (kill, terminate, pause), and on a proxy a cut and toxics. A fault that
    needs another act has no permit.
    """

    word: str  # as it stands under `allow` of a broker or of a proxy
    toxic: str = ""  # Toxiproxy's name of the toxic that the fault adds to a proxy; empty: it adds none
    attributes: Mapping[str, int] = field(default_factory=dict)  # tell the fault from others with the same toxic
    parameter: str = ""  # the parameter of the fault whose value is the word, where it has a choice
    acts_on_way_back: bool = False  # it also acts on the links that lead the other way


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
    # What they mean, in words. Those of names that many faults share stand in harness/cli/suites/fault_words.py.
    words: Mapping[str, str] = field(default_factory=dict)
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
    # What must be allowed on hosts of somebody else's brokers. None: it cannot be carried out there.
    host_permit: HostPermit | None = None

    @property
    def is_of_links(self) -> bool:
        return self.target_kind in ("link", "client_link")

    def host_word(self, parameters: Mapping[str, Parameter]) -> str | None:
        """The word that must be allowed for these parameters. None: no worker can carry the fault out."""
        permit = self.host_permit
        if permit is None:
            return None
        if not permit.parameter:
            return permit.word
        return str(parameters.get(permit.parameter, self.parameters[permit.parameter]))

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
            brokers = resolve_brokers(target, port.brokers, of)
            return FaultContext(port=port, lease=lease, brokers=brokers, toxic_name=toxic_name, of=of)
        if self.target_kind == "client":
            clients = resolve_clients(target, () if port.clients is None else port.clients.names())
            return FaultContext(port=port, lease=lease, clients=clients, toxic_name=toxic_name, of=of)
        if self.target_kind == "topic":
            return FaultContext(port=port, lease=lease, toxic_name=toxic_name, of=of)
        links = resolve_links(target, port.brokers, of, port.links.names())
        check_joint(links, port.links.joint_links())
        return FaultContext(port=port, lease=lease, links=links, toxic_name=toxic_name, of=of)
