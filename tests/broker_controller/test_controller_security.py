"""CreateAcls, DeleteAcls and AlterUserScramCredentials: accepted, refused, written, with Kafka's errors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from broker.controller.security_types import (
    AlterUserScramCredentials,
    AlterUserScramCredentialsResponse,
    CreateAcls,
    CreateAclsResponse,
    DeleteAcls,
    DeleteAclsResponse,
    DeletedAcls,
    Problem,
    ScramDeletion,
    ScramUpsertion,
)
from broker.controller.types import WriteMetadata
from broker.security.acls import AclBinding, AclFilter, Operation, PatternType, Permission, ResourceType
from broker.security.scram import credential_of, salted_password

sys.path.insert(0, str(Path(__file__).parent))
from controller_world import ControllerWorld, cluster

READ = AclBinding(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)
WRITE = READ._replace(operation=Operation.WRITE)
EVERY = AclFilter(1, None, 1, None, None, 1, 1)
SALTED = salted_password("SCRAM-SHA-256", "secret", b"salt", 4096)


def create(world: ControllerWorld, *bindings: AclBinding) -> tuple[Problem, ...]:
    return world.ask(CreateAclsResponse, CreateAcls(token=world.token(), bindings=bindings)).results


def delete(world: ControllerWorld, *filters: AclFilter) -> tuple[DeletedAcls, ...]:
    return world.ask(DeleteAclsResponse, DeleteAcls(token=world.token(), filters=filters)).results


def kept(world: ControllerWorld) -> set[AclBinding]:
    return set(world.controller.image.acls.values())


def written(world: ControllerWorld) -> int:
    return sum(isinstance(action, WriteMetadata) for action in world.actions)


def test_bindings_are_kept_once_and_removed_by_filters() -> None:
    world = cluster(1)
    assert create(world, READ, WRITE, READ) == (Problem(error_code=0),) * 3
    assert kept(world) == {READ, WRITE}
    before = written(world)
    assert create(world, WRITE) == (Problem(error_code=0),)
    assert written(world) == before
    by_operation, everything = EVERY._replace(operation=Operation.READ), EVERY
    first, second = delete(world, by_operation, everything)
    assert first.bindings == (READ,)
    assert set(second.bindings) == {READ, WRITE}
    assert not kept(world)


@pytest.mark.parametrize(
    "wrong",
    [
        READ._replace(resource_type=ResourceType.CLUSTER),
        READ._replace(resource_name=""),
        READ._replace(resource_type=1),
        READ._replace(resource_type=99),
        READ._replace(pattern_type=PatternType.MATCH),
        READ._replace(pattern_type=PatternType.ANY),
        READ._replace(operation=Operation.ANY),
        READ._replace(operation=99),
        READ._replace(permission=1),
        READ._replace(principal="a"),
    ],
)
def test_bindings_that_are_refused_leave_the_others(wrong: AclBinding) -> None:
    world = cluster(1)
    refused, accepted = create(world, wrong, WRITE)
    assert (refused.error_code, accepted.error_code) == (42, 0)
    assert kept(world) == {WRITE}


@pytest.mark.parametrize("part", ["resource_type", "pattern_type", "operation", "permission"])
def test_a_filter_of_an_unknown_part_deletes_nothing(part: str) -> None:
    world = cluster(1)
    create(world, READ)
    (answer,) = delete(world, EVERY._replace(**{part: 0}))
    assert answer.problem.error_code == 42
    assert kept(world) == {READ}


def alter(world: ControllerWorld, *changes: ScramDeletion | ScramUpsertion) -> list[tuple[str, int]]:
    request = AlterUserScramCredentials(
        token=world.token(),
        deletions=tuple(each for each in changes if isinstance(each, ScramDeletion)),
        upsertions=tuple(each for each in changes if isinstance(each, ScramUpsertion)),
    )
    results = world.ask(AlterUserScramCredentialsResponse, request).results
    return [(name, problem.error_code) for name, problem in results]


def password(name: str = "alice", mechanism: int = 1, iterations: int = 4096, **other: bytes) -> ScramUpsertion:
    values = {"salt": b"salt", "salted_password": SALTED, **other}
    return ScramUpsertion(name=name, mechanism=mechanism, iterations=iterations, **values)


def test_a_credential_is_kept_changed_and_deleted() -> None:
    world = cluster(1)
    assert alter(world, password()) == [("alice", 0)]
    assert world.controller.image.scram_credentials == {
        "alice": {1: credential_of("SCRAM-SHA-256", SALTED, salt=b"salt", iterations=4096)}
    }
    assert alter(world, password(iterations=8192), password("bob", salt=b"")) == [("alice", 0), ("bob", 0)]
    assert alter(world, password(mechanism=2), ScramDeletion(name="bob", mechanism=1)) == [("bob", 0), ("alice", 0)]
    assert {key: each.iterations for key, each in world.controller.image.scram_credentials["alice"].items()} == {
        1: 8192,
        2: 4096,
    }
    for mechanism in (1, 2):
        assert alter(world, ScramDeletion(name="alice", mechanism=mechanism)) == [("alice", 0)]
    assert not world.controller.image.scram_credentials


@pytest.mark.parametrize(
    ("change", "error_code"),
    [
        (password(name=""), 93),
        (password(mechanism=0), 33),
        (password(mechanism=3), 33),
        (password(iterations=4095), 93),
        (password(iterations=16385), 93),
        (password(salted_password=b""), 93),
        (ScramDeletion(name="nobody", mechanism=1), 91),
        (ScramDeletion(name="nobody", mechanism=9), 33),
    ],
)
def test_credentials_that_are_refused(change: ScramDeletion | ScramUpsertion, error_code: int) -> None:
    world = cluster(1)
    assert alter(world, change) == [(change.name, error_code)]
    assert not world.controller.image.scram_credentials


def test_a_credential_that_is_named_twice_is_refused() -> None:
    world = cluster(1)
    alter(world, password())
    assert alter(world, ScramDeletion(name="alice", mechanism=1), password(mechanism=2)) == [("alice", 92)]
    assert alter(world, password(mechanism=2), password(iterations=8192)) == [("alice", 92)]
    assert list(world.controller.image.scram_credentials["alice"]) == [1]
    assert "alice" in world.controller.image.scram_credentials


def test_what_a_password_leaves_is_in_no_text_of_a_record() -> None:
    world = cluster(1)
    alter(world, password())
    request = AlterUserScramCredentials(token=1, deletions=(), upsertions=(password(),))
    assert repr(SALTED) not in repr(request)
    credential = world.controller.image.scram_credentials["alice"][1]
    assert repr(credential.stored_key) not in repr(world.controller.image)
