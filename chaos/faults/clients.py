"""Faults on client processes: members of consumer groups and transactional copiers (readers with own_processes).

client_kill sends SIGKILL, so there is no commit and no LeaveGroup. client_leave sends SIGTERM, and the member leaves
its group cleanly. client_pause sends SIGSTOP: the member sends no heartbeat and closes no socket. client_twin starts a
second process with the same transactional.id, which fences the first.

Healing starts the process that was ended, resumes the paused one, or ends the second one. With comes_back: 0 a process
that was ended is not started again, and others get its work.

client_kill with between: 1 is for members that commit before they process, and for members of share groups. It kills
such a member between its commit and its processing, or while it has records of a share group that it has not processed.
For this the member is stopped (SIGSTOP) again and again until its journal shows such records. Other members are killed
at once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from chaos.faults.base import FaultContext, FaultRun, FaultSpec, Parameter, Proof, heal_each
from chaos.lease import ProcessIdentity, is_alive, read_identity, read_state
from chaos.ports.clients import Clients

BETWEEN_WITHIN_S: Final = 15.0
STOPPED_WITHIN_S: Final = 2.0
# The time between two checks is random, so that checks do not always meet the member at the same point of its work.
GO_ON_S: Final = (0.001, 0.025)


class NeverBetween(Exception):
    """The member had processed everything that it had committed, or that a share group had given it, at every check."""


def clients_of(context: FaultContext) -> Clients:
    clients = context.port.clients
    assert clients is not None, "a target that is a client was resolved, so there are clients"
    return clients


def _identities(clients: Clients, names: Sequence[str]) -> dict[str, ProcessIdentity]:
    """The processes of the clients that run."""
    pids = clients.pids()
    found = {name: read_identity(pids[name]) for name in names if name in pids}
    return {name: identity for name, identity in found.items() if identity}


class ClientsEnd:
    """Clients that are ended, and started again by healing."""

    def __init__(self, context: FaultContext, end: Callable[[str], None], parameters: Mapping[str, Parameter]) -> None:
        self._names, self._clients, self._end = context.clients, clients_of(context), end
        self._comes_back = bool(parameters["comes_back"])
        self._before: dict[str, ProcessIdentity] = {}

    def inject(self) -> None:
        self._before = _identities(self._clients, self._names)
        for name in self._names:
            self._end(name)

    def heal(self) -> None:
        heal_each(self._names if self._comes_back else (), self._clients.start_again)

    def prove(self) -> Proof:
        alive = {name: is_alive(identity) for name, identity in self._before.items()}
        return Proof(
            is_effective=bool(alive) and not any(alive.values()),
            detail={
                name: {"pid": self._before[name].pid, "state": "alive" if still else "gone"}
                for name, still in alive.items()
            },
        )


class ClientsPaused:
    def __init__(self, context: FaultContext) -> None:
        self._names, self._clients, self._lease = context.clients, clients_of(context), context.lease
        self._before: dict[str, ProcessIdentity] = {}
        self._entries: list[str] = []

    def inject(self) -> None:
        self._before = _identities(self._clients, self._names)
        for name, identity in self._before.items():
            if self._lease:
                self._entries.append(self._lease.add_stopped_process(identity.pid))
            self._clients.pause(name)

    def heal(self) -> None:
        heal_each(self._before, self._clients.resume)
        while self._entries and self._lease:
            self._lease.remove(self._entries.pop())

    def prove(self) -> Proof:
        states = {name: read_state(identity.pid) for name, identity in self._before.items()}
        return Proof(
            is_effective=bool(states) and all(state == "T" for state in states.values()),
            detail={name: {"pid": self._before[name].pid, "state": state} for name, state in states.items()},
        )


class ClientTwins:
    """Starts second owners of a transactional.id. The brokers, and not this fault, must fence the first one."""

    def __init__(self, context: FaultContext) -> None:
        self._names, self._clients = context.clients, clients_of(context)
        self._twins: dict[str, ProcessIdentity] = {}

    def inject(self) -> None:
        for name in self._names:
            identity = read_identity(self._clients.twin(name))
            if identity is not None:
                self._twins[name] = identity

    def heal(self) -> None:
        self._clients.end_twins()

    def prove(self) -> Proof:
        first = self._clients.pids()
        is_effective = bool(self._twins) and all(
            is_alive(identity) and name in first for name, identity in self._twins.items()
        )
        return Proof(
            is_effective=is_effective,
            detail={name: {"first": first.get(name), "second": identity.pid} for name, identity in self._twins.items()},
        )


def _kill_between(clients: Clients, name: str) -> None:
    """Kill a member between commit and processing, or while it holds records of a share group. If this moment never
    comes, it raises NeverBetween, and the member continues."""
    if clients.committed_ahead(name) is None:
        clients.kill(name)
        return
    rng = random.Random(name)
    deadline = time.monotonic() + BETWEEN_WITHIN_S
    while time.monotonic() < deadline:
        clients.pause(name)
        _await_stopped(clients.pids().get(name))
        if clients.committed_ahead(name):
            clients.kill(name)
            return
        clients.resume(name)
        time.sleep(rng.uniform(*GO_ON_S))
    raise NeverBetween(f"{name} had processed all that it had at each look in {BETWEEN_WITHIN_S:.0f} s")


def _await_stopped(pid: int | None) -> None:
    """The kernel stops a process a moment after the signal. If it is gone, there is nothing to wait for."""
    deadline = time.monotonic() + STOPPED_WITHIN_S
    while pid is not None and read_state(pid) not in ("T", "Z", None) and time.monotonic() < deadline:
        time.sleep(0.001)


def _kill(context: FaultContext, parameters: Mapping[str, Parameter]) -> FaultRun:
    clients = clients_of(context)
    kill = partial(_kill_between, clients) if parameters["between"] else clients.kill
    return ClientsEnd(context, kill, parameters)


def _leave(context: FaultContext, parameters: Mapping[str, Parameter]) -> FaultRun:
    return ClientsEnd(context, clients_of(context).leave, parameters)


def _pause(context: FaultContext, parameters: Mapping[str, Parameter]) -> FaultRun:
    return ClientsPaused(context)


def _twin(context: FaultContext, parameters: Mapping[str, Parameter]) -> FaultRun:
    return ClientTwins(context)


def _problem(parameters: Mapping[str, Parameter]) -> str | None:
    for name in ("comes_back", "between"):
        if parameters.get(name, 1) not in (0, 1):
            return f"{name} is 0 or 1, got {parameters[name]}"
    return None


def _spec(
    name: str,
    label: str,
    colour: str,
    make: Callable[[FaultContext, Mapping[str, Parameter]], FaultRun],
    **parameters: Parameter,
) -> FaultSpec:
    return FaultSpec(
        name=name,
        label=label,
        colour=colour,
        target_kind="client",
        default_target="app:0",
        make=make,
        parameters=parameters,
        problem=_problem,
    )


SPECS: tuple[FaultSpec, ...] = (
    _spec("client_kill", "client killed (SIGKILL)", "#b03a2e", _kill, comes_back=1, between=0),
    _spec("client_leave", "client left", "#1e8449", _leave, comes_back=1),
    _spec("client_pause", "client paused (SIGSTOP)", "#2471a3", _pause),
    _spec("client_twin", "second owner of the transactional.id", "#7d3c98", _twin),
)
