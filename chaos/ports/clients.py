"""Clients as faults see them. The members of a cell implement it themselves (harness/run/cells/members.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class Clients(Protocol):
    """The member processes of the load, by name, like app-0."""

    def names(self) -> Sequence[str]: ...

    def pids(self) -> Mapping[str, int]:
        """Process ids of the clients that run."""

    def committed_ahead(self, name: str) -> int | None:
        """How many records the member has committed and not processed, by its journal. For a member of a share group:
        how many it has and has not processed. None: it does not commit before it processes."""

    def kill(self, name: str) -> None:
        """SIGKILL."""

    def leave(self, name: str) -> None:
        """SIGTERM, and wait until it has left its group."""

    def pause(self, name: str) -> None:
        """SIGSTOP, also for the processes that it started."""

    def resume(self, name: str) -> None:
        """SIGCONT, for the same processes."""

    def start_again(self, name: str) -> None:
        """Start a client that does not run. Does nothing if it runs."""

    def twin(self, name: str) -> int:
        """Start a second process with the same group and transactional.id. Returns its pid."""

    def end_twins(self) -> None: ...
