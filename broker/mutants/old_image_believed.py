"""A restarted broker acts on the metadata of its last life until it hears news (it may lead, alone)."""

from __future__ import annotations

from broker.controller.image import MetadataImage
from broker.mutants import Patch
from broker.node.replicas.image_feed import ImageFeed


def _tell(self: ImageFeed, image: MetadataImage) -> None:
    self._roles.apply_image(self._told_image or MetadataImage(), image)
    self._told_image = image


def apply(patch: Patch) -> None:
    patch.set(ImageFeed, "tell", _tell)
