"""What the feature has opened on this node: the coordinator of states, and the share partitions. Members are with the
group coordinator (group_kind.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.controller.features import SHARE_VERSION, level_of
from broker.controller.group_configs import SHARE_HEARTBEAT_INTERVAL
from broker.controller.image import MetadataImage
from broker.node.cluster.links import Links
from broker.node.coordination.coordinators import CoordinatorHost
from broker.node.coordination.group_kinds import GroupKind
from broker.node.feature import Kernel, Part
from broker.node.features.share_groups.coordinator import KEY_TYPE, ShareStates
from broker.node.features.share_groups.group_kind import ShareGroupKind
from broker.node.features.share_groups.persister import Persister
from broker.node.features.share_groups.shares import Shares
from broker.node.settings.sections.shares import ShareSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePart(Part):
    settings: ShareSettings
    image: Callable[[], MetadataImage]
    peers: Links  # the other brokers, for requests about share groups
    states: ShareStates
    shares: Shares
    kind: ShareGroupKind

    @property
    def is_on(self) -> bool:
        """By the cluster's level of `share.version`."""
        return level_of(self.image(), SHARE_VERSION) >= 1

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """The interval for members: the group's own, else that of this broker."""
        own = self.image().group_configs.get(group_id, {}).get(SHARE_HEARTBEAT_INTERVAL)
        return self.settings.group_share_heartbeat_interval_ms if own is None else int(own)

    # -- for the kernel (broker/node/feature.py) -----------------------------------------------------------------------

    @property
    def coordinators(self) -> Mapping[int, CoordinatorHost[Any]]:
        return {KEY_TYPE: self.states.host}

    @property
    def group_kinds(self) -> Sequence[GroupKind]:
        return (self.kind,)

    def image_changed(self, image: MetadataImage, *, is_current: bool) -> None:
        self.states.image_changed(image, is_current=is_current)

    def leaders_changed(self) -> None:
        self.shares.image_changed()


def open_share_groups(kernel: Kernel) -> SharePart:
    settings = kernel.config.shares
    peers = kernel.outgoing.brokers("share-state")
    states = ShareStates(
        broker_id=kernel.config.node_id,
        settings=settings,
        replicas=kernel.replicas,
        control=kernel.control,
        image=kernel.image,
        logger=kernel.logger,
        spawn=kernel.spawn,
    )
    persister = Persister(states=states, peers=peers, logger=kernel.logger)
    shares = Shares(
        settings=settings,
        partitions=kernel.replicas.partitions,
        persister=persister,
        image=kernel.image,
        logger=kernel.logger,
        spawn=kernel.spawn,
    )
    kind = ShareGroupKind(settings=settings, persister=persister)
    return SharePart(settings=settings, image=kernel.image, peers=peers, states=states, shares=shares, kind=kind)
