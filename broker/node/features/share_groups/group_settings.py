"""The settings of one share group: its own, else those of this broker. Also the offset at which a new group begins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from broker.controller.group_configs import (
    GROUP_SETTINGS,
    SHARE_DELIVERIES,
    SHARE_ISOLATION,
    SHARE_LOCK_DURATION,
    SHARE_LOCKS,
    SHARE_OFFSET_RESET,
    SHARE_RENEW,
)
from broker.log.errors import UnreadableBatchError
from broker.log.time_search import Steps
from broker.node.features.share_groups.delivery.deliveries import Limits
from broker.node.process.clock import wall_ms
from broker.node.replicas.hosted import HostedPartition
from broker.node.settings.sections.shares import ShareSettings

_DURATION = re.compile(
    r"by_duration:P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d*)?)S)?)?",
    re.IGNORECASE,
)
_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    limits: Limits
    offset_reset: str
    is_read_committed: bool
    may_renew: bool


def group_settings(settings: ShareSettings, own: Mapping[str, str]) -> GroupSettings:
    def text(name: str) -> str:
        return own.get(name, GROUP_SETTINGS[name].default)

    return GroupSettings(
        limits=Limits(
            delivery_count_limit=int(own.get(SHARE_DELIVERIES, settings.group_share_delivery_count_limit)),
            record_locks_max=int(own.get(SHARE_LOCKS, settings.group_share_partition_max_record_locks)),
            lock_duration_ms=int(own.get(SHARE_LOCK_DURATION, settings.group_share_record_lock_duration_ms)),
        ),
        offset_reset=text(SHARE_OFFSET_RESET),
        is_read_committed=text(SHARE_ISOLATION) == "read_committed",
        may_renew=text(SHARE_RENEW) == "true",
    )


def first_offset(hosted: HostedPartition, reset: str) -> Steps[int]:
    """The first offset of a new group. It is at most the high watermark. `reset` was checked when it was set."""
    if reset == "earliest":
        return hosted.log.log_start_offset
    found = _DURATION.fullmatch(reset)
    if found is None:
        return hosted.replica.high_watermark
    back_ms = sum(float(found[unit] or 0) * ms for unit, ms in _MS.items())
    try:
        found_at = yield from hosted.log.find_timestamp(max(0, int(wall_ms() - back_ms)))
    except UnreadableBatchError as error:  # nobody can tell its times: rather too early than too late
        return min(error.offset, hosted.replica.high_watermark)
    return hosted.replica.high_watermark if found_at is None else min(found_at[1], hosted.replica.high_watermark)
