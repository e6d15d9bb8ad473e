"""When the target assignment of a group may be computed anew (KIP-1263): at once, or an interval after the last time.

The time of the last assignment is in the log, by the wall clock. Shown by
tests/broker_coordinator/test_coordinator_assignment_interval.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.coordinator.schema import Reader, Writer

_TIMESTAMP_TAG = 0  # in the records that hold the epoch of an assignment
NEVER_MS = 0  # the time of a group that has had no assignment, or only one that an older version wrote


def is_assignment_due(*, last_ms: int, interval_ms: int, wall_ms: int) -> bool:
    """Whether an assignment may be computed now. A time in the future is that of a coordinator whose clock was ahead.
    It does not count: otherwise the group would wait until this clock has caught up."""
    return last_ms == NEVER_MS or not last_ms <= wall_ms < last_ms + interval_ms


def timestamp_tag(timestamp_ms: int) -> dict[int, bytes]:
    return {} if timestamp_ms == NEVER_MS else {_TIMESTAMP_TAG: bytes(Writer.part().int64(timestamp_ms))}


def timestamp_of(tags: Mapping[int, bytes]) -> int:
    """Raises SchemaError if the tagged field is damaged."""
    encoded = tags.get(_TIMESTAMP_TAG)
    return NEVER_MS if encoded is None else Reader.part(encoded).int64()
