"""The authorizer against a naive reading of Kafka's rules, and its speed with many bindings."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType, covers
from broker.security.authorizer import Authorizer

NAMES = ("a", "ab", "abc", "b", "*", "hardcode")
PRINCIPALS = ("User:alice", "User:bob", "User:*")
HOSTS = ("*", "10.0.0.1", "10.0.0.2")
OPERATIONS = tuple(each for each in Operation if each > Operation.ANY)
TOPIC = ResourceType.TOPIC

bindings = st.lists(
    st.builds(
        AclBinding,
        st.sampled_from((ResourceType.TOPIC, ResourceType.GROUP)),
        st.sampled_from(NAMES),
        st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
        st.sampled_from(PRINCIPALS),
        st.sampled_from(HOSTS),
        st.sampled_from((Operation.ALL, Operation.READ, Operation.DESCRIBE, Operation.ALTER_CONFIGS)),
        st.sampled_from((Permission.ALLOW, Permission.DENY)),
    ),
    max_size=8,
    unique=True,
)


def authorizer_of(found: Iterable[AclBinding], **settings: object) -> Authorizer:
    authorizer = Authorizer(**settings)  # type: ignore[arg-type]
    for each in found:
        authorizer.add(each)
    authorizer.is_loaded = True
    return authorizer


def naive(
    found: Sequence[AclBinding], principal: str, host: str, operation: Operation, kind: int, name: str, default: bool
) -> bool:
    """The documentation's rules, one binding after the other."""
    of_resource = [each for each in found if each.resource_type == kind and covers(each, name)]
    mine = [each for each in of_resource if each.principal in (principal, "User:*") and each.host in (host, "*")]
    if any(each.permission == Permission.DENY and each.operation in (operation, Operation.ALL) for each in mine):
        return False
    implying = {
        Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
        Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
    }.get(operation, set())
    if any(
        each.permission == Permission.ALLOW and each.operation in {operation, Operation.ALL, *implying} for each in mine
    ):
        return True
    return default and not of_resource


@given(bindings, st.booleans())
def test_it_decides_as_a_naive_reading_of_the_rules(found: list[AclBinding], default: bool) -> None:
    authorizer = authorizer_of(found, allows_without_acl=default)
    for name, host in itertools.product(("a", "abc", "c"), HOSTS[1:]):
        for operation in (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.WRITE):
            told = authorizer.allows("User:alice", host, operation, TOPIC, name)
            assert told == naive(found, "User:alice", host, operation, TOPIC, name, default)


@given(bindings, st.data())
def test_what_was_removed_counts_no_more(found: list[AclBinding], data: st.DataObject) -> None:
    authorizer = authorizer_of(found)
    gone = data.draw(st.lists(st.sampled_from(found), unique=True) if found else st.just([]))
    for each in gone:
        authorizer.remove(each)
    kept = authorizer_of(each for each in found if each not in gone)
    for name, operation in itertools.product(("a", "abc", "c"), OPERATIONS):
        arguments = ("User:alice", "10.0.0.1", operation, TOPIC, name)
        assert authorizer.allows(*arguments) == kept.allows(*arguments)


@given(bindings)
def test_somewhere_means_that_a_name_can_be_found(found: list[AclBinding]) -> None:
    """Kafka's answer may be True where a longer DENY covers every name that exists, never False where one is left."""
    authorizer = authorizer_of(found)
    told = authorizer.allows_somewhere("User:alice", "10.0.0.1", Operation.READ, TOPIC)
    could = any(
        authorizer.allows("User:alice", "10.0.0.1", Operation.READ, TOPIC, name + more)
        for name, more in itertools.product(NAMES[:4], ("", "~"))
    )
    if could:
        assert told


def rule(name: str, pattern: PatternType, operation: Operation, permission: Permission) -> AclBinding:
    return AclBinding(TOPIC, name, pattern, "User:alice", "*", operation, permission)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([], False),
        ([rule("a", PatternType.LITERAL, Operation.WRITE, Permission.ALLOW)], True),
        ([rule("a", PatternType.LITERAL, Operation.READ, Permission.ALLOW)], False),
        (
            [
                rule("a", PatternType.LITERAL, Operation.WRITE, Permission.ALLOW),
                rule("a", PatternType.LITERAL, Operation.ALL, Permission.DENY),
            ],
            False,
        ),
        (
            [
                rule("ab", PatternType.PREFIXED, Operation.WRITE, Permission.ALLOW),
                rule("a", PatternType.PREFIXED, Operation.WRITE, Permission.DENY),
            ],
            False,
        ),
        (
            [
                rule("a", PatternType.PREFIXED, Operation.WRITE, Permission.ALLOW),
                rule("ab", PatternType.PREFIXED, Operation.WRITE, Permission.DENY),
            ],
            True,
        ),
        (
            [
                rule("a", PatternType.LITERAL, Operation.WRITE, Permission.ALLOW),
                rule("*", PatternType.LITERAL, Operation.WRITE, Permission.DENY),
            ],
            False,
        ),
    ],
)
def test_writing_to_some_topic(found: list[AclBinding], told: bool) -> None:
    assert authorizer_of(found).allows_somewhere("User:alice", "h", Operation.WRITE, TOPIC) == told


def test_a_super_user_may_what_is_denied_and_before_anything_is_known() -> None:
    authorizer = Authorizer(super_users=["User:root"], allows_without_acl=True)
    everything = ("h", Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster")
    assert authorizer.allows("User:root", *everything)
    assert not authorizer.allows("User:alice", *everything)
    authorizer.is_loaded = True
    assert authorizer.allows("User:alice", *everything)
    authorizer.add(
        AclBinding(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, "User:*", "*", 2, Permission.DENY)
    )
    assert authorizer.allows("User:root", *everything)
    assert not authorizer.allows("User:alice", *everything)


def test_operations_are_bits() -> None:
    found = [rule("a", PatternType.LITERAL, Operation.READ, Permission.ALLOW)]
    told = authorizer_of(found).operations("User:alice", "h", TOPIC, "a")
    assert told == 1 << Operation.READ | 1 << Operation.DESCRIBE


def test_ten_thousand_bindings_cost_a_decision_no_more_than_a_few_lookups() -> None:
    """Bindings of one topic, of all topics, of prefixes of 50 lengths. A decision takes some 10 us; looking at each
    binding takes more than 1 ms."""
    rng = random.Random(1)
    found = {
        AclBinding(
            TOPIC,
            rng.choice(["*", "busy", f"t{rng.randrange(3000)}", "p" * rng.randrange(1, 50)]),
            rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            f"User:u{rng.randrange(5000)}",
            "*",
            rng.choice((Operation.READ, Operation.WRITE)),
            Permission.ALLOW,
        )
        for _ in range(10_000)
    }
    authorizer = authorizer_of(found)
    began = time.process_time()
    for number in range(1000):
        authorizer.allows(f"User:u{number}", "h", Operation.READ, TOPIC, "busy")
    assert (time.process_time() - began) / 1000 < 0.000_5
