"""A replica that takes no part: no image has named it yet, it was removed, or its broker stops."""

from __future__ import annotations

from typing import ClassVar

from broker.replication.roles.follower import truncate
from broker.replication.roles.role import FollowerState, Replica, ReplicaRole
from broker.replication.transitions import Role
from broker.replication.types import Action, Truncated


class Stopped(ReplicaRole):
    """It takes no part. No image has named it yet, it was removed, its storage failed, or its broker stops."""

    NAME: ClassVar = Role.STOPPED

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.followers: dict[int, FollowerState] = {}

    def truncated(self, event: Truncated) -> list[Action]:
        return truncate(self._replica, event)
