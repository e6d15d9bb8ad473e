"""The controller elects replicas whose storage failed as if nothing had been told (against KIP-858)."""

from __future__ import annotations

from collections.abc import Set
from uuid import UUID

from broker.controller import elections, partitions
from broker.controller.image import MetadataImage
from broker.mutants import Patch
from broker.mutants.settings import Settings


def able(image: MetadataImage, may_lead: Set[int], topic_id: UUID, partition: int) -> Set[int]:
    return may_lead


def apply(patch: Patch) -> None:
    for module in (elections, partitions):
        patch.set(module, "able", able)


def is_reached(settings: Settings) -> bool:
    return settings.disk_faults > 0
