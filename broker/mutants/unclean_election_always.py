"""Any live replica may lead, whatever unclean.leader.election.enable says."""

from __future__ import annotations

from broker.controller import elections, partitions
from broker.mutants import Patch


def apply(patch: Patch) -> None:
    patch.set(elections, "is_unclean_allowed", lambda image, topic, default: True)
    patch.set(partitions, "is_unclean_allowed", lambda image, topic, default: True)
