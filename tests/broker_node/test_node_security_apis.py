"""Access control lists and SCRAM credentials over the wire, on a cluster of three: made, told, deleted, kept over a
restart; SECURITY_DISABLED without an authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_helper import Cluster
from wire_helper import ask

from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from tests.patience import wait_until

pytestmark = pytest.mark.slow
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
READ = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
EVERY = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
PASSWORD = {"name": "alice", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"salted"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:nobody;User:ANONYMOUS"}
    with Cluster(tmp_path_factory.mktemp("security"), settings=settings) as running:
        running.wait_until_all_are_known()
        yield running


def bindings(port: int) -> list[tuple[str, str, int]]:
    answer = ask(port, ApiKey.DESCRIBE_ACLS, 3, **EVERY)
    assert answer.error_code is ErrorCode.none
    return sorted((each.resource_name, acl.principal, acl.operation) for each in answer.resources for acl in each.acls)


def users(port: int, *names: str) -> list[tuple[str, ErrorCode, Any]]:
    answer = ask(port, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=[{"name": name} for name in names] or None)
    return [
        (each.user, each.error_code, [(info.mechanism, info.iterations) for info in each.credential_infos])
        for each in answer.results
    ]


def told_after_restart(port: int) -> list[tuple[str, str, int]] | None:
    try:
        return bindings(port)
    except OSError:
        return None


def test_every_broker_tells_what_any_broker_was_told(cluster: Cluster) -> None:
    ports = [cluster.ports[broker]["DIRECT"] for broker in cluster.ids]
    created = ask(
        ports[0], ApiKey.CREATE_ACLS, 3, creations=[READ, {**READ, "operation": 4}, {**READ, "principal": "a"}]
    )
    assert [each.error_code for each in created.results] == [ErrorCode.none, ErrorCode.none, ErrorCode.invalid_request]
    password = ask(ports[0], ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[PASSWORD])
    assert [(each.user, each.error_code) for each in password.results] == [("alice", ErrorCode.none)]
    both = [("t", "User:a", 3), ("t", "User:a", 4)]
    alice = ("alice", ErrorCode.none, [(1, 4096)])
    assert (bindings(ports[0]), users(ports[0])) == (both, [alice])  # at once, where it was said
    for port in ports[1:]:
        wait_until(lambda port=port: bindings(port) == both and users(port) == [alice], "the others know")
    assert users(ports[0], "alice", "bob", "alice") == [
        ("alice", ErrorCode.duplicate_resource, []),
        ("bob", ErrorCode.resource_not_found, []),
    ]
    cluster.kill(2)
    cluster.start(2)
    wait_until(lambda: told_after_restart(ports[1]) == both, "it is kept over a restart")
    gone = ask(ports[2], ApiKey.DELETE_ACLS, 3, filters=[{**EVERY, "operation": 4}])
    assert [(each.error_code, len(each.matching_acls)) for each in gone.filter_results] == [(ErrorCode.none, 1)]
    assert bindings(ports[2]) == both[:1]
    deletions = [{"name": "alice", "mechanism": 1}]
    ask(ports[2], ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=deletions, upsertions=[])
    assert users(ports[2]) == []


@pytest.mark.parametrize("part", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
def test_a_number_that_stands_for_nothing_closes_the_connection(cluster: Cluster, part: str) -> None:
    port = cluster.ports[1]["DIRECT"]
    with pytest.raises(OSError, match="closed"):
        ask(port, ApiKey.CREATE_ACLS, 3, creations=[{**READ, part: 0}])
    (other,) = ask(port, ApiKey.CREATE_ACLS, 3, creations=[{**READ, part: 99}]).results
    assert other.error_code is ErrorCode.invalid_request


def test_without_an_authorizer_security_is_disabled(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=1) as running:
        running.wait_until_all_are_known()
        port = running.ports[1]["DIRECT"]
        assert ask(port, ApiKey.DESCRIBE_ACLS, 3, **EVERY).error_code is ErrorCode.security_disabled
        (created,) = ask(port, ApiKey.CREATE_ACLS, 3, creations=[READ]).results
        (deleted,) = ask(port, ApiKey.DELETE_ACLS, 3, filters=[EVERY]).filter_results
        assert (created.error_code, deleted.error_code) == (ErrorCode.security_disabled,) * 2
