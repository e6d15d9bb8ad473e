"""The logs of a last life are opened on the event loop, which answers nobody meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.replicas.log_recovery import LogRecovery

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


async def _on_the_loop(work: Callable[[], None]) -> None:
    work()


def apply(patch: Patch) -> None:
    def init(self: LogRecovery, **values: object) -> None:
        original(self, **{**values, "run_blocking": _on_the_loop})

    original = patch.set(LogRecovery, "__init__", init)


def is_reached(plan: SeedPlan) -> bool:
    return plan.has_aftermath
