"""A kind of group that a feature adds to the group coordinator, beside classic and consumer groups.

The core of such groups is a part of each group shard (broker/coordinator/groups/kinds.py). This is the rest: their
settings, and what they keep outside `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from broker.coordinator.groups.kinds import MakeGroups
from broker.coordinator.groups.records import Assignment
from broker.node.settings.config import NodeConfig
from broker.wire.errors import ErrorCode


class GroupKind(Protocol):
    @property
    def group_type(self) -> str:
        """The group type in ListGroups."""
        ...

    @property
    def make_groups(self) -> MakeGroups: ...

    def settings(self, config: NodeConfig, own: Callable[[str], dict[str, int]]) -> object:
        """The event that tells the shards the settings of such groups. They get it when they begin to serve, and when
        it has changed. `config` has what was changed at run time. `own(name)` has the values of the groups that have
        their own, by group id."""
        ...

    async def delete_states(self, group_id: str, partitions: Assignment) -> ErrorCode:
        """Deletes what the group keeps outside its shard (StatesToDelete). After an error, some of it may be left."""
        ...
