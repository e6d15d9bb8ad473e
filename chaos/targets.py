"""Targets are roles, resolved to broker ids and link names when a fault is injected, not when a scenario is read.

Brokers: `leader`, `followers`, `follower:0`, `heir` (the follower that is elected next, first in replica order),
`others` (all but the leader), `controller`, `coordinator` (of the cell's consumer group, `coordinator:GROUP_ID` of
another one), `txn-coordinator` (of its first transactional copier, `txn-coordinator:TRANSACTIONAL_ID` of another
producer), `broker:2`, `minority` (the leader and as many more as stay below half), `majority` (the
rest), `all`.

Clients: `app:0` (member 0 of a reader called app whose members are processes of their own), `app:all`.

Links:

- `followers->leader`: connections that the followers open to the leader. Also `client->leader`, `clients->all`.
- `<->` means both directions.
- A listener may stand in front. Without one it is that between brokers. `controller:leader->controller` is the
  controllers' listener, `any:` means both.
- Commas separate several expressions.
- Two shapes are those of Jepsen's nemeses: `any:ring` (each broker reaches a majority, and no two reach the same one)
  and `any:bridge` (only one broker reaches both halves).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from chaos.ports.brokers import Roles
from runlog.files.nearest import nearest_name

_ROLE = re.compile(
    r"leader|heir|followers|follower:\d+|others|controller|(txn-)?coordinator(:.+)?|broker:\d+|minority|majority|all",
    re.DOTALL,
)
_ROLES = (
    "leader", "heir", "followers", "follower:N", "others", "controller", "coordinator", "coordinator:GROUP_ID",
    "txn-coordinator", "txn-coordinator:TRANSACTIONAL_ID", "broker:N", "minority", "majority", "all",
)  # fmt: skip
_MEMBER = re.compile(r"([a-z0-9][a-z0-9-]*):(\d+|all)")
_CLIENTS = ("client", "clients")
_KINDS: dict[str, tuple[str, ...]] = {
    "internal": ("internal",),
    "controller": ("controller",),
    "any": ("internal", "controller"),
}
# The key is the role. The values are whose coordinator it is, and how an error shows the name.
_COORDINATORS = {
    "coordinator": ("group", "GROUP_ID", "billing"),
    "txn-coordinator": ("transactional.id", "TRANSACTIONAL_ID", "copier-0"),
}
_SHAPES = ("ring", "bridge")


class TargetError(Exception):
    """The text is not a target, or no broker or link has this role at the moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOfInterest:
    """The partition whose leader and followers are meant, and whose coordinators are meant by a target without a
    name: those of the load."""

    topic: str
    partition: int = 0
    group: str = ""  # Empty: the load has no group.
    transactional_id: str = ""  # Empty: the load has no transactional copier.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Links:
    """One link expression. It is a shape, or two sides that are roles (`left` may be `client`)."""

    kinds: tuple[str, ...]
    left: str = ""
    right: str = ""
    is_both_ways: bool = False
    shape: str = ""

    @property
    def is_of_clients(self) -> bool:
        return self.left in _CLIENTS


def check_broker_target(target: str) -> None:
    """Raises TargetError for a text that `resolve_brokers` can never resolve."""
    if not _ROLE.fullmatch(target):
        roles = f"{', '.join(_ROLES[:-1])} or {_ROLES[-1]}"
        if "->" in target:
            raise TargetError(f"{target!r} is a link, and this fault acts on brokers: {roles}")
        if target.isdigit():
            raise TargetError(f"{target!r} is no broker target; did you mean 'broker:{target}'?")
        near = nearest_name(target, _ROLES) or nearest_name(target.partition(":")[0], _ROLES)
        hint = f"; did you mean {near!r}?" if near else f": {roles}"
        raise TargetError(f"{target!r} is no broker target{hint}")


def check_link_target(target: str, *, only_clients: bool = False) -> None:
    for expression in _split_links(target):
        if only_clients and not expression.is_of_clients:
            raise TargetError(f"{target!r}: this fault works on links of clients, like client->leader")


def check_topic_target(target: str) -> None:
    if target != "topic":
        raise TargetError(f"{target!r}: this fault works on the topic of the load, so leave `target` out")


def check_client_target(target: str) -> None:
    if not _MEMBER.fullmatch(target):
        raise TargetError(f"{target!r} is no client: READER:N or READER:all, like app:0")


def resolve_clients(target: str, names: Sequence[str]) -> tuple[str, ...]:
    """Those of the member processes that are meant, at least one. Raises TargetError if the workload has none of
    them."""
    found = _MEMBER.fullmatch(target)
    assert found is not None
    wanted = tuple(
        name for name in names if name == f"{found[1]}-{found[2]}" or (found[2] == "all" and _reader(name) == found[1])
    )
    if not wanted:
        raise TargetError(
            f"no member process is {target!r}, there are {', '.join(names) or 'none'} "
            "(readers of the workload with own_processes: true have them)"
        )
    return wanted


def _reader(name: str) -> str:
    return name.rpartition("-")[0]


def resolve_brokers(target: str, roles: Roles, of: PartitionOfInterest) -> tuple[int, ...]:
    """At least one broker id, ascending. Raises TargetError if nobody has the role now."""
    check_broker_target(target)
    role, _, number = target.partition(":")  # or an id
    found: tuple[int, ...]
    match role:
        case "all":
            found = tuple(sorted(roles.broker_ids))
        case "broker":
            found = tuple(broker for broker in roles.broker_ids if broker == int(number))
        case "controller":
            controller = roles.controller()
            found = () if controller is None else (controller,)
        case "coordinator":
            coordinator = roles.group_coordinator(_named(role, number or of.group))
            found = () if coordinator is None else (coordinator,)
        case "txn-coordinator":
            coordinator = roles.transaction_coordinator(_named(role, number or of.transactional_id))
            found = () if coordinator is None else (coordinator,)
        case "heir":
            leader = roles.leader(of.topic, of.partition)
            found = tuple(replica for replica in roles.replicas(of.topic, of.partition) if replica != leader)[:1]
        case "leader" | "others" | "minority" | "majority":
            found = _around_leader(role, roles, of)
        case _:
            found = _followers(roles, of)
            if role == "follower":
                found = found[int(number) : int(number) + 1]
    if not found:
        raise TargetError(f"nobody is {target!r} of {of.topic}-{of.partition} now")
    return found


def _named(role: str, name: str) -> str:
    if name:
        return name
    owner, placeholder, example = _COORDINATORS[role]
    raise TargetError(f"{role!r} is that of a {owner}: write {role}:{placeholder}, like {role}:{example}")


def resolve_links(target: str, roles: Roles, of: PartitionOfInterest, existing: Sequence[str]) -> tuple[str, ...]:
    """The names of all existing links of this target, each once. Raises TargetError if there is none."""
    wanted = wanted_links(target, roles, of)
    found = tuple(name for name in wanted if name in existing)
    if not found:
        raise TargetError(
            f"no link is {target!r} now (wanted {', '.join(wanted) or 'none'}; a cluster without proxies?)"
        )
    return found


def wanted_links(target: str, roles: Roles, of: PartitionOfInterest) -> tuple[str, ...]:
    """The names of all links of this target, with or without a proxy."""
    wanted: dict[str, None] = {}
    for expression in _split_links(target):
        wanted |= dict.fromkeys(_wanted(expression, roles, of))
    return tuple(wanted)


def check_joint(links: Sequence[str], joint: Sequence[frozenset[str]]) -> None:
    """Raises TargetError if a proxy carries some of the links and others too, because the fault would affect those."""
    for together in joint:
        if (others := together.difference(links)) and len(others) < len(together):
            meant = ", ".join(sorted(together - others))
            raise TargetError(f"the proxy that carries {meant} carries {', '.join(sorted(others))} too")


def other_way(link: str) -> str | None:
    """The link of the connections that the other side opens. None for a client's link."""
    kind, _, rest = link.partition("-")
    source, separator, target = rest.partition("-")
    return f"{kind}-{target}-{source}" if separator else None


def _wanted(expression: _Links, roles: Roles, of: PartitionOfInterest) -> list[str]:
    if expression.shape:
        leader = roles.leader(of.topic, of.partition)
        brokers = sorted(roles.broker_ids)
        pairs = ring(brokers) if expression.shape == "ring" else bridge(brokers, leader)
    else:
        targets = resolve_brokers(expression.right, roles, of)
        if expression.is_of_clients:
            return [f"client-{broker}" for broker in targets]
        sources = resolve_brokers(expression.left, roles, of)
        pairs = [(source, target) for source in sources for target in targets if source != target]
        if expression.is_both_ways:
            pairs += [(target, source) for source, target in pairs]
    return [f"{kind}-{source}-{target}" for kind in expression.kinds for source, target in pairs]


def ring(brokers: Sequence[int]) -> list[tuple[int, int]]:
    """The ordered pairs to cut so that each broker reaches only the next half of the ring. With itself this is a
    majority."""
    count = len(brokers)
    return [
        (source, brokers[(place + step) % count])
        for place, source in enumerate(brokers)
        for step in range(count // 2 + 1, count)
    ]


def bridge(brokers: Sequence[int], leader: int | None) -> list[tuple[int, int]]:
    """The ordered pairs to cut so that only one broker in between reaches both halves. One half has the leader."""
    ends = [broker for broker in brokers if broker != leader]
    middle = ends[0] if ends else None
    sides = [broker for broker in brokers if broker not in (leader, middle)]
    half = (len(brokers) - 1) // 2
    near = [] if leader is None else [leader]
    near += sides[: max(0, half - len(near))]
    far = [broker for broker in sides if broker not in near]
    return [pair for left in near for right in far for pair in ((left, right), (right, left))]


def _around_leader(role: str, roles: Roles, of: PartitionOfInterest) -> tuple[int, ...]:
    leader = roles.leader(of.topic, of.partition)
    if leader is None:
        return ()
    others = tuple(sorted(broker for broker in roles.broker_ids if broker != leader))
    small = (len(others)) // 2  # below half of all
    match role:
        case "leader":
            return (leader,)
        case "others":
            return others
        case "minority":
            return tuple(sorted((leader, *others[: max(0, small - 1)])))
        case _:
            return others[max(0, small - 1) :]


def _followers(roles: Roles, of: PartitionOfInterest) -> tuple[int, ...]:
    leader = roles.leader(of.topic, of.partition)
    replicas = roles.replicas(of.topic, of.partition)
    return () if leader is None else tuple(sorted(broker for broker in replicas if broker != leader))


def _split_links(target: str) -> list[_Links]:
    return [_split_link(part.strip()) for part in target.split(",")]


def _split_link(text: str) -> _Links:
    kinds, rest = _KINDS["internal"], text
    for name, those in _KINDS.items():
        if text.startswith(f"{name}:"):
            kinds, rest = those, text.removeprefix(f"{name}:")
    if rest in _SHAPES:
        return _Links(kinds=kinds, shape=rest)
    arrow = "<->" if "<->" in rest else "->"
    left, found, right = rest.partition(arrow)
    if not found and _ROLE.fullmatch(text):
        raise TargetError(
            f"{text!r} is no link, but a broker, and this fault acts on links: write client->{text} for those of its "
            f"clients, or others->{text} for those of the other brokers"
        )
    if not found:
        raise TargetError(
            f"{text!r} is no link: write source->target or source<->target, like followers->leader or client->leader, "
            f"or one of the shapes {', '.join(_SHAPES)}"
        )
    if left not in _CLIENTS:
        check_broker_target(left)
    elif arrow == "<->":
        raise TargetError(f"{text!r}: brokers open no connections to clients, write {left}->{right}")
    check_broker_target(right)
    return _Links(kinds=kinds, left=left, right=right, is_both_ways=arrow == "<->")
