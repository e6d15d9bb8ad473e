from __future__ import annotations

from broker.controller.image import MetadataImage
from broker.sim.invariants.invariant import Group, Invariant


class EqualOffsetsMeanEqualImages(Invariant):
    """Two brokers with the metadata up to the same offset have the same image, whether it came from entries or from a
    snapshot.
    """

    NAME = "equal offsets mean equal images"
    GROUP = Group.QUORUM

    def check(self, node_id: int, image: MetadataImage, *, expected: MetadataImage | None) -> None:
        """`expected` is the image that the committed entries up to that offset give. None if there are no such
        entries."""
        if expected != image:
            self.violated(f"node {node_id} at offset {image.offset} has {image}, the entries say {expected}")
