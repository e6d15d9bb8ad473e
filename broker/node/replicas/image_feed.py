"""Gives the partitions of this broker each new metadata image, a few new partitions at a time.

Owns: the part of the image that the partitions already know. They get no image before it contains the registration of
this process. Until then the image comes from this node's own log and may be very old. In that image this broker may
still be the only leader of a partition. It would then acknowledge records that the true leader never gets. The
registration comes after every decision that was made while this broker was away, and in that image this broker leads no
partition (found by the simulation: tests/broker_sim, seed 7). If this node is the only voter, it need not wait: nothing
can have been decided without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.controller.delta import towards
from broker.controller.image import MetadataImage
from broker.node.cluster.lifecycle import Lifecycle
from broker.node.replicas.log_recovery import LogRecovery
from broker.node.replicas.roles import Roles
from broker.node.settings.sections.cluster import QuorumSettings

PARTITIONS_OPENED_MAX = 5  # in one turn: a new log needs some files and syncs, 1 to 10 ms on a busy disk


class ImageFeed:
    """`image` returns the newest image. `on_roles_changed` is called when partitions began or ended to be led or
    followed here, or brokers changed. `on_step` is called when the partitions have taken a part of the image in a later
    turn of the event loop. `on_failure` is called when they could not: their memory would stay behind the image for
    ever."""

    def __init__(
        self,
        *,
        settings: QuorumSettings,
        roles: Roles,
        recovery: LogRecovery,
        lifecycle: Lifecycle,
        image: Callable[[], MetadataImage],
        on_roles_changed: Callable[[], None],
        on_step: Callable[[], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._node_id = settings.node_id
        self._is_alone = len(settings.controller_quorum_voters) == 1
        self._roles, self._recovery = roles, recovery
        self._lifecycle, self._image = lifecycle, image
        self._on_roles_changed, self._on_step, self._on_failure = on_roles_changed, on_step, on_failure
        self._told_image: MetadataImage | None = None  # None: the partitions have got no image yet
        self._telling: asyncio.Handle | None = None  # the scheduled call for the rest of the image
        self._has_discarded_strays = False

    def tell(self, image: MetadataImage) -> None:
        registration = image.brokers.get(self._node_id)
        is_ours = registration is not None and self._lifecycle.is_of_this_life(registration)
        if not self._lifecycle.may_join.is_set():
            return
        if is_ours or self._is_alone or self._told_image is not None:
            told = self._told_image or MetadataImage()
            step = towards(told, image, broker_id=self._node_id, partitions_max=PARTITIONS_OPENED_MAX)
            delta = self._roles.apply_image(told, step)
            if delta.removed or delta.leads or delta.follows or delta.brokers:
                self._on_roles_changed()
            self._told_image = step
            if step is not image and self._telling is None:
                self._telling = asyncio.get_running_loop().call_soon(self._tell_on)
            if is_ours and not self._has_discarded_strays:
                self._has_discarded_strays = True
                self._recovery.discard_strays(image)

    def _tell_on(self) -> None:
        """Opens the next few new partitions of the newest image. So a request for 10,000 partitions does not block
        other work."""
        self._telling = None
        try:
            self.tell(self._image())
            self._on_step()
        except Exception as error:  # the same as for an error when a new image arrives
            self._on_failure(error)

    def close(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
