"""A replica that restarted joins the ISR by what it had fetched before (against KIP-903)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller import partitions
from broker.controller.image import MetadataImage
from broker.mutants import Patch
from broker.replication.roles import Leader

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def _is_eligible_to_controller(image: MetadataImage, replica: int, broker_epoch: int) -> bool:
    broker = image.brokers.get(replica)
    return broker is not None and broker.may_lead


def _is_eligible_to_leader(self: Leader, replica: int) -> bool:
    eligible_epochs = self._replica.eligible_epochs
    return eligible_epochs is None or replica in eligible_epochs


def apply(patch: Patch) -> None:
    patch.set(partitions, "_is_eligible", _is_eligible_to_controller)
    patch.set(Leader, "_is_eligible", _is_eligible_to_leader)


def is_reached(plan: SeedPlan) -> bool:
    return plan.directed == "earlier life"
