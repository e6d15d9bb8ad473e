"""A reassignment is over as soon as one of its target is in sync: the others leave, whoever else has their records."""

from __future__ import annotations

from broker.controller import elections
from broker.controller.reassignment import Assignment
from broker.mutants import Patch
from broker.mutants.seed_plan import SeedPlan


def completed(assignment: Assignment, isr: tuple[int, ...]) -> tuple[Assignment, tuple[int, ...]] | None:
    if not assignment.adding and not assignment.removing:
        return None
    kept = tuple(replica for replica in isr if replica in assignment.target)
    return (Assignment(replicas=assignment.target), kept) if kept else None


def apply(patch: Patch) -> None:
    patch.set(elections, "completed", completed)


def is_reached(plan: SeedPlan) -> bool:
    return plan.reassignments > 0
