"""Targets are roles, resolved to broker ids and link names when a fault is injected, not when a scenario is read.

Brokers: `leader`, `followers`, `follower:0`, `controller`, `broker:2`, `all`. Links: `followers->leader`,
`client->leader`, `clients->all`, with the listener in front where it is not the brokers' own:
`controller:leader->controller`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from chaos.port import ClusterPort

_ROLE = re.compile(r"leader|followers|follower:\d+|controller|broker:\d+|all")
_CLIENTS = ("client", "clients")
_LINK_KINDS = ("internal", "controller")


class TargetError(Exception):
    """A target that is no target, or that nothing fits at this moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOfInterest:
    """Whose leader and followers are meant."""

    topic: str
    partition: int = 0


def check_broker_target(target: str) -> None:
    """Raises TargetError for what `resolve_brokers` could never resolve."""
    if not _ROLE.fullmatch(target):
        raise TargetError(f"{target!r} is no broker target: leader, followers, follower:N, controller, broker:N or all")


def check_link_target(target: str, *, only_clients: bool = False) -> None:
    _split_link(target, only_clients=only_clients)


def resolve_brokers(target: str, port: ClusterPort, of: PartitionOfInterest) -> tuple[int, ...]:
    """At least one broker id, ascending. Raises TargetError if the role has nobody now."""
    check_broker_target(target)
    role, _, number = target.partition(":")
    found: tuple[int, ...]
    match role:
        case "all":
            found = tuple(sorted(port.broker_ids))
        case "broker":
            found = tuple(broker for broker in port.broker_ids if broker == int(number))
        case "controller":
            controller = port.controller()
            found = () if controller is None else (controller,)
        case "leader":
            leader = port.leader(of.topic, of.partition)
            found = () if leader is None else (leader,)
        case _:
            found = _followers(port, of)
            if role == "follower":
                found = found[int(number) : int(number) + 1]
    if not found:
        raise TargetError(f"nobody is {target!r} of {of.topic}-{of.partition} now")
    return found


def resolve_links(target: str, port: ClusterPort, of: PartitionOfInterest) -> tuple[str, ...]:
    """Names of all existing links from the left to the right side. Raises TargetError if there is none."""
    kind, left, right = _split_link(target, only_clients=False)
    targets = resolve_brokers(right, port, of)
    if left in _CLIENTS:
        wanted = [f"client-{broker}" for broker in targets]
    else:
        sources = resolve_brokers(left, port, of)
        wanted = [f"{kind}-{source}-{broker}" for source in sources for broker in targets if source != broker]
    existing = set(port.link_names())
    found = tuple(name for name in wanted if name in existing)
    if not found:
        raise TargetError(
            f"no link is {target!r} now (wanted {', '.join(wanted) or 'none'}; a cluster without proxies?)"
        )
    return found


def _followers(port: ClusterPort, of: PartitionOfInterest) -> tuple[int, ...]:
    leader = port.leader(of.topic, of.partition)
    replicas = port.replicas(of.topic, of.partition)
    return () if leader is None else tuple(sorted(broker for broker in replicas if broker != leader))


def _split_link(target: str, *, only_clients: bool) -> tuple[str, str, str]:
    left, arrow, right = target.partition("->")
    kind = "internal"
    for name in _LINK_KINDS:
        if left.startswith(f"{name}:"):
            kind, left = name, left.removeprefix(f"{name}:")
    if not arrow:
        raise TargetError(f"{target!r} is no link: write source->target, like followers->leader or client->leader")
    if left not in _CLIENTS:
        if only_clients:
            raise TargetError(f"{target!r}: this fault works on links of clients, like client->leader")
        check_broker_target(left)
    check_broker_target(right)
    return kind, left, right
