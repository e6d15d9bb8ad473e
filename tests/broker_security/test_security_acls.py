"""Filters over access control lists: what DescribeAcls and DeleteAcls mean."""

from __future__ import annotations

import pytest

from broker.security.acls import AclBinding, AclFilter, Operation, PatternType, Permission, ResourceType

ANY = AclFilter(1, None, 1, None, None, 1, 1)
PREFIX = AclBinding(ResourceType.TOPIC, "or", PatternType.PREFIXED, "User:a", "*", Operation.READ, Permission.ALLOW)
LITERAL = PREFIX._replace(resource_name="orders", pattern_type=PatternType.LITERAL)
EVERY = LITERAL._replace(resource_name="*")
GROUP = LITERAL._replace(resource_type=ResourceType.GROUP)
ALL = [PREFIX, LITERAL, EVERY, GROUP]


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        (ANY, ALL),
        (ANY._replace(resource_type=ResourceType.TOPIC), [PREFIX, LITERAL, EVERY]),
        (ANY._replace(resource_name="orders"), [LITERAL, GROUP]),
        (ANY._replace(resource_name="or"), [PREFIX]),
        (ANY._replace(resource_name="orders", pattern_type=PatternType.MATCH), ALL),
        (ANY._replace(resource_name="orange", pattern_type=PatternType.MATCH), [PREFIX, EVERY]),
        (ANY._replace(resource_name="o", pattern_type=PatternType.MATCH), [EVERY]),
        (ANY._replace(resource_name="*", pattern_type=PatternType.LITERAL), [EVERY]),
        (ANY._replace(pattern_type=PatternType.PREFIXED), [PREFIX]),
        (ANY._replace(principal="User:b"), []),
        (ANY._replace(host="127.0.0.1"), []),
        (ANY._replace(operation=Operation.WRITE), []),
        (ANY._replace(operation=Operation.READ, permission=Permission.DENY), []),
    ],
)
def test_a_filter_chooses_what_kafkas_would(chosen: AclFilter, found: list[AclBinding]) -> None:
    assert [each for each in ALL if chosen.matches(each)] == found


def test_a_filter_of_unknown_parts_says_so() -> None:
    assert not ANY.is_unknown
    for part in ("resource_type", "pattern_type", "operation", "permission"):
        assert ANY._replace(**{part: 0}).is_unknown
