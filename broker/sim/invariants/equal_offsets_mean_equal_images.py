from __future__ import annotations

from broker.controller.image import MetadataImage
from broker.sim.invariants.invariant import Group, Invariant


class EqualOffsetsMeanEqualImages(Invariant):
    """Two brokers that hold the metadata up to the same offset have the same image of it, whether it came from entries
    or from a snapshot.
    """

    NAME = "equal offsets mean equal images"
    GROUP = Group.QUORUM

    def check(self, node_id: int, image: MetadataImage, *, expected: MetadataImage | None) -> None:
        """`expected` is what the committed entries up to the offset of the image say, None for no such entries."""
        if expected != image:
            self.violated(f"node {node_id} at offset {image.offset} has {image}, the entries say {expected}")
