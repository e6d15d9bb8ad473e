"""Settings of groups that bound each other: a broker whose file contradicts itself does not start, as in Apache Kafka.

The order of the checks and the texts are those of Apache Kafka 4.3.1 (GroupCoordinatorConfig, ShareGroupConfig).
Shown by tests/broker_node/test_node_group_bounds.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.node.settings.config import NodeConfig

_KINDS = ("consumer", "share")
_TIMES = ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")
_SHARE = ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms")


def group_problem(config: NodeConfig) -> tuple[tuple[str, str], str] | None:
    """The first two settings that contradict each other, and the text that says so. None: there are none."""
    found = contradiction(config)
    if found is None:
        return None
    first, relation, second = found
    left, right = _value(config, first), _value(config, second)
    return (first, second), f"{first} must be {relation} {second}, but {left} and {right} were given"


def contradiction(config: NodeConfig) -> tuple[str, str, str] | None:
    """(setting, relation, setting): the first relation that does not hold. None: all do."""
    for first, relation, second in _relations():
        left, right = _value(config, first), _value(config, second)
        is_kept = left < right if relation == "less than" else left >= right
        if relation == "less than or equal to":
            is_kept = left <= right
        if not is_kept:
            return first, relation, second
    return None


def _value(config: NodeConfig, key: str) -> int:
    found = getattr(config, key.replace(".", "_"))
    assert isinstance(found, int)
    return found


def _relations() -> Iterator[tuple[str, str, str]]:
    """(setting, relation, setting) that must be so."""
    for kind in _KINDS:
        for name in _TIMES:
            own, low, high = (f"group.{kind}.{bound}{name}" for bound in ("", "min.", "max."))
            yield high, "greater than or equal to", low
            yield own, "greater than or equal to", low
            yield own, "less than or equal to", high
            if name == "session.timeout.ms":
                yield f"group.{kind}.heartbeat.interval.ms", "less than", own
    for name in _SHARE:
        own, low, high = (f"group.share.{bound}{name}" for bound in ("", "min.", "max."))
        yield high, "greater than or equal to", own
        yield own, "greater than or equal to", low
    yield "group.share.max.share.sessions", "greater than or equal to", "group.share.max.size"
