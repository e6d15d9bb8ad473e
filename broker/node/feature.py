"""What a feature is to the kernel of the broker: its APIs, and what it opens on a node.

A feature is one folder in features/ and one row in features/table.py. The kernel knows features only by this interface.
What it cannot be asked for by a feature's row stays in the kernel: names in the protocol, settings and their bounds,
levels of features (docs/decisions/0024-features.md).
Shown by tests/broker_node/test_node_feature_table.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from broker.controller.delta import PartitionChange
from broker.controller.image import MetadataImage
from broker.node.cluster.controller_client import ControllerClient
from broker.node.cluster.outgoing import Outgoing
from broker.node.coordination.coordinators import CoordinatorHost
from broker.node.coordination.group_kinds import GroupKind
from broker.node.handlers.authorization.rules import Rule
from broker.node.handlers.rows import Row
from broker.node.process.logs import Logger
from broker.node.replicas.directories import Key
from broker.node.replicas.log_recovery import RunBlocking
from broker.node.replicas.replicas import Replicas
from broker.node.settings.config import NodeConfig
from broker.wire.apis import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """An API of a feature: how it is answered, and who may ask."""

    row: Row[Any]  # Any: each API has its own request
    rule: Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """The parts of the node that a feature may use to open its own."""

    config: NodeConfig
    replicas: Replicas
    control: ControllerClient
    outgoing: Outgoing
    image: Callable[[], MetadataImage]
    logger: Logger
    spawn: Callable[..., object]
    new_id: Callable[[], UUID]  # of a log directory, or of a log in it
    run_blocking: RunBlocking
    directories_changed: Callable[[Mapping[Key, UUID | None]], None]  # of replicas, so that the controller is told


class Part(Protocol):
    """What a feature has opened on this node. Its handlers find it by its type (Services.part). What a part does not
    define, its feature does not have."""

    @property
    def coordinators(self) -> Mapping[int, CoordinatorHost[Any]]:
        """By the key type of FindCoordinator. The type is Any: each has its own kind of shard."""
        return {}

    @property
    def group_kinds(self) -> Sequence[GroupKind]:
        return ()

    def image_changed(self, image: MetadataImage, *, is_current: bool) -> None:
        """It is called before the coordinators get the image. `is_current` says that this image contains every decision
        from before this process started."""
        return

    def replica_changed(self, change: PartitionChange) -> None:
        """It is called for each replica of this broker that is new or changed in the image, after it is hosted."""
        return

    def leaders_changed(self) -> None:
        """It is called after the partitions and the coordinators took the image."""
        return

    def close(self) -> None:
        """It is called at a stop, before the partitions are closed."""
        return


def _always(config: NodeConfig) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """`is_offered`: whether ApiVersions names its APIs. Requests are handled in any case."""

    name: str
    apis: Mapping[ApiKey, Api]
    is_offered: Callable[[NodeConfig], bool] = _always
    open: Callable[[Kernel], Part]
