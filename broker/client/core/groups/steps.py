"""The one step that a member's core offers to the application, and the one that the application works on."""

from __future__ import annotations

from broker.client.core.groups.events import Step


class Steps:
    """Invariant: nothing is offered while the application works on a step."""

    __slots__ = ("offered", "taken")

    def __init__(self) -> None:
        self.offered: Step | None = None
        self.taken: Step | None = None

    def begin(self) -> Step:
        assert self.offered is not None
        assert self.taken is None
        self.taken, self.offered = self.offered, None
        return self.taken

    def end(self) -> Step | None:
        """The step that the application is done with. None: the member has left meanwhile."""
        taken, self.taken = self.taken, None
        return taken

    def clear(self) -> None:
        self.offered = self.taken = None

    def check_invariants(self) -> None:
        assert self.offered is None or self.taken is None
