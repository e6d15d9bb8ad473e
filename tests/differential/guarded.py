"""The same chapters under access control lists: asked from 127.0.0.2, which may do what each chapter's lists say.

Both brokers run StandardAuthorizer. Everybody is User:ANONYMOUS, and the address tells who is who: 127.0.0.1 (the
broker, and what prepares a chapter) may do everything, 127.0.0.2 has rules that are drawn by the seed. At first there
are no lists, and `allow.everyone.if.no.acl.found` lets 127.0.0.1 make its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from tests.differential.generator import Chapter
from tests.differential.values import Names

GUEST = "127.0.0.2"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = 2, 3, 4, 5, 6, 7, 8
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 9, 10, 11, 12
_OF_TOPICS = (READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
_OF_CLUSTER = (CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE)
_RULES_MAX = 12


def rule(kind: int, name: str, pattern: int, operation: int, permission: int = ALLOW) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "operation": operation,
        "permission_type": permission,
    }


EVERYTHING = [
    *(rule(kind, "*", LITERAL, ALL) for kind in (TOPIC, GROUP, TRANSACTIONAL_ID)),
    rule(CLUSTER, "kafka-cluster", LITERAL, ALL),
]


def rules_of(chapter: Chapter, seed: int) -> list[Mapping[str, Any]]:
    """At most `_RULES_MAX`: none in some chapters, nearly everything in others."""
    rng = random.Random(f"rules {seed} {chapter.title}")
    drawn = [_draw(chapter.names, rng) for _ in range(rng.randrange(_RULES_MAX + 1))]
    return list({str(each): each for each in drawn}.values())


def _draw(names: Names, rng: random.Random) -> dict[str, Any]:
    first, second = names.topics
    kind = rng.choice((TOPIC, TOPIC, TOPIC, GROUP, GROUP, CLUSTER, TRANSACTIONAL_ID, TRANSACTIONAL_ID))
    permission = rng.choice((ALLOW, ALLOW, ALLOW, DENY))
    if kind == CLUSTER:
        return rule(kind, "kafka-cluster", LITERAL, rng.choice((*_OF_CLUSTER, ALL)), permission)
    operation = rng.choice((*(_OF_TOPICS if kind == TOPIC else (READ, WRITE, DELETE, DESCRIBE)), ALL))
    own = {TOPIC: (first, second), GROUP: (names.group,), TRANSACTIONAL_ID: (names.transactional_id,)}[kind]
    name, pattern = rng.choice(
        (
            *((each, LITERAL) for each in own),
            (f"{names.chapter}-", PREFIXED),
            (f"{names.chapter}-", PREFIXED),
            ("*", LITERAL),
        )
    )
    return rule(kind, name, pattern, operation, permission)


def described(rules: list[Mapping[str, Any]]) -> Iterator[str]:
    """For people who look for the cause of a difference."""
    for each in rules:
        yield " ".join(f"{name}={value}" for name, value in each.items())
