"""Settings of groups that bound each other: a broker whose file contradicts itself does not start, as in Apache Kafka.

The order of the checks and the texts are those of Apache Kafka 4.3.1 (GroupCoordinatorConfig, ShareGroupConfig).
Shown by tests/broker_node/test_node_group_bounds.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from broker.node.settings.sections.section import Problem

_NOT_LESS, _NOT_MORE, _LESS = "greater than or equal to", "less than or equal to", "less than"
_TIMES: Final = ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms")


class Relation(NamedTuple):
    """One setting that must be in a relation to another one."""

    first: str
    relation: str
    second: str

    def __str__(self) -> str:
        return f"{self.first} must be {self.relation} {self.second}"


def relations_of_times(kind: str) -> Iterator[Relation]:
    for name in _TIMES:
        own, low, high = (f"group.{kind}.{bound}{name}" for bound in ("", "min.", "max."))
        yield Relation(high, _NOT_LESS, low)
        yield Relation(own, _NOT_LESS, low)
        yield Relation(own, _NOT_MORE, high)
        if name == "session.timeout.ms":
            yield Relation(f"group.{kind}.heartbeat.interval.ms", _LESS, own)


def relations_of_limit(name: str) -> Iterator[Relation]:
    own, low, high = (f"group.share.{bound}{name}" for bound in ("", "min.", "max."))
    yield Relation(high, _NOT_LESS, own)
    yield Relation(own, _NOT_LESS, low)


def at_least(first: str, second: str) -> Relation:
    return Relation(first, _NOT_LESS, second)


def first_broken(section: object, relations: Iterable[Relation]) -> Relation | None:
    for each in relations:
        left, right = _value(section, each.first), _value(section, each.second)
        holds = {_LESS: left < right, _NOT_MORE: left <= right, _NOT_LESS: left >= right}
        if not holds[each.relation]:
            return each
    return None


def problem_of(section: object, broken: Relation | None) -> Problem | None:
    if broken is None:
        return None
    left, right = _value(section, broken.first), _value(section, broken.second)
    return Problem(keys=(broken.first, broken.second), text=f"{broken}, but {left} and {right} were given")


def _value(section: object, key: str) -> int:
    found = getattr(section, key.replace(".", "_"))
    assert isinstance(found, int)
    return found
