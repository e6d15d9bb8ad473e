"""`python -m broker.sim.state_machines_page`: writes docs/internals/state-machines.md.

Diagrams and tables are made from the tables of transitions that the broker itself uses. The sentences are the
docstrings of the roles. Shown by tests/broker_sim/test_sim_pages.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from broker.quorum import roles as quorum_roles
from broker.quorum import transitions as quorum
from broker.replication import roles as replication_roles
from broker.replication import transitions as replication

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "state-machines.md"

_HEAD = """# State machines

This page shows the roles of a voter of the metadata quorum, the roles of a replica of a partition, and the states of a
leader's ISR. It is written by `python -m broker.sim.state_machines_page`, from the tables by which the broker changes
its roles: [quorum/transitions.py](../../broker/quorum/transitions.py) and
[replication/transitions.py](../../broker/replication/transitions.py). The code looks every change up in its table.
A change that is not in the table is a failed assertion, in every seed of the simulation too. Tests show that each row
happens.

To see the machines at work, read the traces of [the quorum](../../tests/broker_traces/quorum) and of
[replication](../../tests/broker_traces/replication). Each is a short story as text: commands, and under each command
the messages, the changes and the state that the real cores answer with.
"""

_QUORUM = """## A voter of the metadata quorum

One class a role, in [quorum/roles](../../broker/quorum/roles). Epoch, vote, log and high watermark outlive a role.
Kafka's role "voted" is an unattached voter that has given its vote.
"""

_REPLICA = """## A replica of a partition

One class a role, in [replication/roles](../../broker/replication/roles). The controller decides who leads; a replica
learns it from the metadata image. An image of an older leader epoch changes nothing. A leader stays what it is when an
image of its own epoch changes the ISR.
"""

_ISR = """## The ISR of a leader

The leader proposes, the controller decides (KIP-497), in [replication/isr.py](../../broker/replication/isr.py). While a
proposal is open, its members count for the high watermark as well as the committed ISR does.
"""

_QUORUM_ROLES = (
    quorum_roles.Unattached,
    quorum_roles.Prospective,
    quorum_roles.Candidate,
    quorum_roles.Follower,
    quorum_roles.Leader,
    quorum_roles.Resigned,
)
_REPLICA_ROLES = (replication_roles.Stopped, replication_roles.Follower, replication_roles.Leader)
_ISR_STATES = {
    replication.IsrState.SETTLED: "What the controller has committed is all there is.",
    replication.IsrState.PROPOSED: "A proposal (AlterPartition) is on its way to the controller.",
    replication.IsrState.UNANSWERED: "Nobody knows whether the controller agreed. The leader will ask again.",
}

Table = Mapping[tuple[Any, Any], Any]  # Any: the enums of states and of triggers differ by machine


def page() -> str:
    parts = [
        _HEAD,
        _QUORUM,
        _list({role.NAME.value: _sentences(role) for role in _QUORUM_ROLES}),
        _diagram(quorum.TRANSITIONS, start=quorum.RoleName.INITIAL),
        _rows(quorum.TRANSITIONS),
        _REPLICA,
        _list({role.NAME.value: _sentences(role) for role in _REPLICA_ROLES}),
        _diagram(replication.TRANSITIONS, before=replication.Role.STOPPED),
        _rows(replication.TRANSITIONS),
        _ISR,
        _list({state.value: sentence for state, sentence in _ISR_STATES.items()}),
        _diagram(replication.ISR_TRANSITIONS, before=replication.IsrState.SETTLED),
        _rows(replication.ISR_TRANSITIONS),
    ]
    return "\n".join(parts)


def _sentences(role: type) -> str:
    return " ".join((role.__doc__ or "").split("\n\n")[0].split())


def _list(sentences: Mapping[str, str]) -> str:
    return "\n".join([*(f"- **{name}**: {sentence}" for name, sentence in sentences.items()), ""])


def _diagram(table: Table, *, start: Enum | None = None, before: Enum | None = None) -> str:
    """The diagram in Mermaid. `start` is the state that is drawn as the start. `before` is the state of a new
    object."""
    lines = ["```mermaid", "stateDiagram-v2"]
    if before is not None:
        lines.append(f"  [*] --> {before.value}")
    for (one, other), triggers in _edges(table).items():
        name = "[*]" if one is start else one.value
        lines.append(f"  {name} --> {other.value}: {'<br/>'.join(trigger.value for trigger in triggers)}")
    return "\n".join([*lines, "```", ""])


def _edges(table: Table) -> dict[tuple[Enum, Enum], list[Enum]]:
    edges: dict[tuple[Enum, Enum], list[Enum]] = {}
    for (state, trigger), after in table.items():
        edges.setdefault((state, after), []).append(trigger)
    return edges


def _rows(table: Table) -> str:
    rows: Iterable[str] = (
        f"| {state.value} | {trigger.value} | {after.value} |" for (state, trigger), after in table.items()
    )
    return "\n".join(["| from | event | to |", "|---|---|---|", *rows, ""])


if __name__ == "__main__":
    PAGE.write_text(page())
