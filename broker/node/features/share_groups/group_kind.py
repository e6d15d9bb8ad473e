"""Share groups as a kind of group for the group coordinator: their settings, and the states that they keep with the
share coordinators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.controller.group_configs import SHARE_ASSIGNMENT_INTERVAL, SHARE_SESSION_TIMEOUT
from broker.coordinator.groups.kinds import MakeGroups
from broker.coordinator.groups.records import Assignment
from broker.node.features.share_groups.groups.config import ShareGroupConfig
from broker.node.features.share_groups.groups.events import ShareSettingsChanged
from broker.node.features.share_groups.groups.requests import GROUP_TYPE, ShareGroups
from broker.node.features.share_groups.persister import Persister
from broker.node.settings.config import NodeConfig
from broker.node.settings.sections.shares import ShareSettings
from broker.wire.errors import ErrorCode


class ShareGroupKind:
    def __init__(self, *, settings: ShareSettings, persister: Persister) -> None:
        self._persister = persister
        self.group_type = GROUP_TYPE
        self.make_groups: MakeGroups = partial(
            ShareGroups,
            config=ShareGroupConfig(
                group_share_session_timeout_ms=settings.group_share_session_timeout_ms,
                group_share_assignment_interval_ms=settings.group_share_assignment_interval_ms,
                group_share_max_size=settings.group_share_max_size,
            ),
        )

    def settings(self, config: NodeConfig, own: Callable[[str], dict[str, int]]) -> ShareSettingsChanged:
        return ShareSettingsChanged(
            session_timeouts_ms=own(SHARE_SESSION_TIMEOUT),
            assignment_intervals_ms=own(SHARE_ASSIGNMENT_INTERVAL),
            assignment_interval_ms=config.shares.group_share_assignment_interval_ms,
        )

    async def delete_states(self, group_id: str, partitions: Assignment) -> ErrorCode:
        places = [(topic_id, index) for topic_id, indexes in partitions.items() for index in sorted(indexes)]
        results = await self._persister.delete(group_id, places)
        failed = [each.error_code for each in results.values() if each.error_code is not ErrorCode.none]
        return failed[0] if failed else ErrorCode.none
