"""What faults on broker processes share: the pid before the fault, and evidence from /proc after it."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.faults.base import Proof
from chaos.lease import ProcessIdentity, is_alive, read_identity, read_state
from chaos.port import ClusterPort


def identities(port: ClusterPort, brokers: Sequence[int]) -> dict[int, ProcessIdentity]:
    """Of those that run."""
    pids = port.pids()
    found = {broker: read_identity(pids[broker]) for broker in brokers if broker in pids}
    return {broker: identity for broker, identity in found.items() if identity}


def prove_gone(before: dict[int, ProcessIdentity]) -> Proof:
    states: dict[str, object] = {
        f"broker {broker}": {"pid": identity.pid, "state": "alive" if is_alive(identity) else "gone"}
        for broker, identity in before.items()
    }
    return Proof(is_effective=bool(before) and not any(map(is_alive, before.values())), detail=states)


def prove_stopped(before: dict[int, ProcessIdentity]) -> Proof:
    states = {broker: read_state(identity.pid) for broker, identity in before.items()}
    return Proof(
        is_effective=bool(before) and all(state == "T" for state in states.values()),
        detail={f"broker {broker}": {"pid": before[broker].pid, "state": state} for broker, state in states.items()},
    )
