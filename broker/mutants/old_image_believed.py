"""A restarted broker acts on the metadata of its last life until it hears news (it may lead, alone)."""

from __future__ import annotations

from broker.controller.image import BrokerRegistration
from broker.mutants import Patch
from broker.node.cluster.lifecycle import Lifecycle


def _is_of_this_life(self: Lifecycle, registration: BrokerRegistration) -> bool:
    return True


def apply(patch: Patch) -> None:
    patch.set(Lifecycle, "is_of_this_life", _is_of_this_life)
