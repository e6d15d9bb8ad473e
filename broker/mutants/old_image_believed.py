"""A restarted broker acts on the metadata of its last life until it hears news (it may lead, alone)."""

from __future__ import annotations

from broker.controller.image import MetadataImage
from broker.mutants import Patch
from broker.node.broker import Broker


def _tell_partitions(self: Broker, image: MetadataImage) -> None:
    self.partitions.apply_image(self._told_image or MetadataImage(), image)
    self._told_image = image


def apply(patch: Patch) -> None:
    patch.set(Broker, "_tell_partitions", _tell_partitions)
