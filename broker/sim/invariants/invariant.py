"""What an invariant of the simulation is: a name, a sentence, and a check.

The docstring of the class is the sentence that the simulation checks in every seed. docs/internals/simulation.md lists
these sentences. A checker (`quorum_checker`, `partition_checker`, ...) sees what
happens, keeps what must be true, and calls the invariant.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import ClassVar, Protocol

Fail = Callable[[str, str], None]  # (name of the invariant, what was seen)


class Group(Enum):
    """What an invariant is about. The value is a heading of the page."""

    QUORUM = "Quorum and metadata"
    REPLICATION = "Replication"
    CLIENTS = "What clients see"
    TRANSACTIONS = "Transactions"
    GROUPS = "Consumer groups"
    SHARES = "Share groups"
    PROCESSES = "Processes"
    END = "At the end, when the faults are healed"
    AFTERMATH = "In the aftermath"


class Invariant(Protocol):
    NAME: ClassVar[str]  # as in violations and in the table of mutants
    GROUP: ClassVar[Group]
    _fail: Fail

    def __init__(self, fail: Fail) -> None:
        self._fail = fail

    def violated(self, seen: str) -> None:
        """The invariant does not hold. Only the first violation of a run counts."""
        self._fail(self.NAME, seen)
