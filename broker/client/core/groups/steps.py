"""The step that a member's core offers to the application, and the step that the application works on. There is at most
one of each."""

from __future__ import annotations

from broker.client.core.groups.events import Partitions, Step, StepKind


class Steps:
    """Invariant: nothing is offered while the application works on a step."""

    __slots__ = ("offered", "taken")

    def __init__(self) -> None:
        self.offered: Step | None = None
        self.taken: Step | None = None

    def offer_prepare(self, owned: Partitions, *, revoked: Partitions) -> None:
        """Offers the step before a join: the application gives up `revoked`, and polls."""
        self.offered = Step(kind=StepKind.PREPARE, revoked=revoked, remaining=owned - revoked)

    def offer_change(self, owned: Partitions, assigned: Partitions) -> None:
        """Offers the step in which the application gives up and takes only the partitions that differ."""
        self.offered = Step(
            kind=StepKind.COMPLETE, revoked=owned - assigned, assigned=assigned - owned, remaining=assigned
        )

    def offer_anew(self, assigned: Partitions) -> None:
        """The application has given up everything before. Now it takes all these partitions."""
        self.offered = Step(kind=StepKind.COMPLETE, assigned=assigned, remaining=assigned)

    def offer_lost(self, owned: Partitions) -> None:
        self.offered = Step(kind=StepKind.LOST, revoked=owned)

    def offer_last(self, owned: Partitions) -> None:
        """The membership has failed. When the application has finished its present step, it gives up all its
        partitions."""
        self.offered = None
        if self.taken is None and owned:
            self.offer_lost(owned)

    def begin(self) -> Step:
        assert self.offered is not None
        assert self.taken is None
        self.taken, self.offered = self.offered, None
        return self.taken

    def end(self) -> Step | None:
        """Returns the step that the application has finished. None if the member has left meanwhile."""
        taken, self.taken = self.taken, None
        return taken

    def clear(self) -> None:
        self.offered = self.taken = None

    def check_invariants(self) -> None:
        assert self.offered is None or self.taken is None
