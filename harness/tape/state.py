"""What a scripted peer holds beside its frames: the addresses of its brokers, the log, the group and transactions.

No sockets, and no clock: each request tells the time. Shown by tests/harness/test_harness_tape_script.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.explore.trial.model import Program
from harness.tape.fields import Plain
from harness.tape.group import Group
from harness.tape.model import Tape
from harness.tape.partitions import Partitions
from harness.tape.transactions import Transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """There is no answer yet. `ask` gives it, or None; it is asked with the time, whenever something has changed."""

    ask: Callable[[int], Plain | None]


@dataclass(slots=True, kw_only=True)
class State:
    """`addresses`: of each broker, by its number. `newest`: of each API that has a frame, the newest version that the
    peer speaks."""

    addresses: Mapping[int, Address]
    newest: Mapping[str, int]
    partitions: Partitions
    transactions: Transactions
    group: Group
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    now_ms: int = 0


def state_of(tape: Tape, addresses: Mapping[int, Address]) -> State:
    program: Program = tape.trial.program
    partitions = Partitions(program.partitions, program.prefilled, is_read_uncommitted=program.is_read_uncommitted)
    newest: dict[str, int] = {}
    for frame in tape.frames:
        newest[frame.api] = max(frame.version, newest.get(frame.api, 0))
    return State(
        addresses=addresses,
        newest=newest,
        partitions=partitions,
        transactions=Transactions(partitions),
        group=Group(program.members),
    )
