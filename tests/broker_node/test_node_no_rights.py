"""A client without any right: nothing is done for it before its rights are checked, and no answer tells it anything."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_helper import PATIENT
from security_helper import SecuredCluster, Wire, dial
from wire_helper import ask

from broker.controller.image import BROKER_RESOURCE
from broker.node.handlers.rows import Row, handler_of
from broker.wire.apis import APIS, ApiKey, Listener
from broker.wire.errors import ErrorCode, LocalProtocolError
from broker.wire.messages import build, request_type
from tests.patience import wait_until

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.broker_node.test_node_authorization import (
    HIDING,
    IN_HANDLERS,
    NAMES,
    OPEN,
    TABLE,
    answer_of,
    asked,
    errors_in,
    guarded,
    resolved,
    services,
)
from tests.differential.generator import _values

DRAWN = 5  # requests for each API and version
CONFIGS = (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)
SETTINGS = {
    **PATIENT,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "auto.create.topics.enable": "true",
}
SECRETS = ("hidden-topic", "hidden-group", "hidden-user", "hidden-id")


# -- no part of a broker


class Poison:
    """In the place of whatever a handler uses. A rule asks only for the authorizer and the image of the metadata."""

    def __init__(self, real: Any) -> None:
        self.authorizer, self.denials, self.metadata = real.authorizer, real.denials, real.metadata


def spied(row: Row[Any], reached: list[str]) -> Row[Any]:
    """The row, with functions that only note that they are called."""

    def note(name: str) -> Any:
        return lambda *_: reached.append(name)

    return Row(handle=note("handle"), refusal=row.refusal and note("refusal"))


def drawn(key: ApiKey) -> Iterator[tuple[int, Any]]:
    """Versions, and values of a request in it."""
    rng = random.Random(key.name)
    for version in range(APIS[key].min_version, APIS[key].max_version + 1):
        for _ in range(DRAWN):
            try:
                values = resolved(_values(key, request_type(key, version), NAMES, rng))
                build(request_type(key, version), values)
            except (KeyError, TypeError):  # of a controllers' API: its rule looks at no field
                continue
            yield version, values


@pytest.mark.parametrize("key", sorted(TABLE), ids=lambda key: key.name)
def test_no_part_of_a_row_runs_for_a_request_that_is_refused(key: ApiKey) -> None:
    """Every row of the table, so also that of a new API. What is let through is checked element by element in its
    handler (IN_HANDLERS, HIDING), or is open to everybody, or has nothing that needs a right."""
    refused = passed = 0
    for version, values in drawn(key):
        request, origin = asked(key, version, values)
        reached: list[str] = []
        poison = Poison(services())
        handler_of(key, spied(TABLE[key], reached), guarded)(poison, request)  # type: ignore[arg-type]
        if request.is_done:
            refused += 1
            assert not reached, f"version {version}: {reached} ran, and the answer was a refusal"
            errors = errors_in(answer_of(request, origin)) - {ErrorCode.none}
            assert not errors or all("authorization_failed" in each.name for each in errors)
        else:
            passed += 1
    if key in OPEN | IN_HANDLERS | HIDING or not refused + passed:
        return
    assert refused, f"nobody is refused; if {key.name} needs no right, it belongs into OPEN or IN_HANDLERS"


@pytest.mark.parametrize("key", CONFIGS, ids=lambda key: key.name)
@pytest.mark.parametrize("broker", ["1", "7", ""])
def test_settings_of_a_broker_are_refused_before_anything_is_looked_at(key: ApiKey, broker: str) -> None:
    config: dict[str, Any] = {"name": "listener.name.ssl.ssl.keystore.location", "value": "/dev/ptmx"}
    if key is ApiKey.INCREMENTAL_ALTER_CONFIGS:
        config["config_operation"] = 0
    resource = {"resource_type": BROKER_RESOURCE, "resource_name": broker, "configs": [config]}
    values = {"resources": [resource], "validate_only": True}
    request, origin = asked(key, APIS[key].max_version, values)
    handler_of(key, TABLE[key], guarded)(Poison(services()), request)  # type: ignore[arg-type]
    (told,) = answer_of(request, origin).responses
    assert (told.error_code, told.error_message) == (ErrorCode.cluster_authorization_failed, None)


# -- a real broker


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster(tmp_path_factory.mktemp("no-rights"), settings=SETTINGS) as running:
        running.wait_until_all_are_known()
        yield running


def stranger(cluster: SecuredCluster) -> Wire:
    """User:alice, for whom there is no list."""
    return dial(cluster.ports[1]["MTLS"], cluster.client_context(with_certificate=True))


def state(cluster: SecuredCluster) -> object:
    """What an administrator sees of everything that a request can change."""
    port = cluster.ports[1]["DIRECT"]
    return [
        ask(port, ApiKey.METADATA, 12, topics=None, allow_auto_topic_creation=False).topics,
        ask(port, ApiKey.DESCRIBE_ACLS, 3, resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1,
            principal_filter=None, host_filter=None, operation=1, permission_type=1).resources,
        ask(port, ApiKey.DESCRIBE_CONFIGS, 4, resources=[
            {"resource_type": BROKER_RESOURCE, "resource_name": "1", "configuration_keys": None},
            {"resource_type": 2, "resource_name": "hidden-topic", "configuration_keys": None},
        ]).results,
        ask(port, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None).results,
        ask(port, ApiKey.LIST_GROUPS, 4, states_filter=[]).groups,
        ask(port, ApiKey.LIST_TRANSACTIONS, 1, state_filters=[], producer_id_filters=[], duration_filter=-1),
        ask(port, ApiKey.DESCRIBE_QUORUM, 2, topics=[
            {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
        ]).nodes,
    ]  # fmt: skip


def make_secrets(cluster: SecuredCluster) -> None:
    port = cluster.ports[1]["DIRECT"]
    topics = [
        {"name": name, "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
        for name in ("hidden-topic", *NAMES.topics)
    ]
    ask(port, ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=30_000, validate_only=False)
    committed = [{"name": "hidden-topic", "partitions": [{"partition_index": 0, "committed_offset": 1,
                  "committed_leader_epoch": -1, "committed_metadata": ""}]}]  # fmt: skip

    def is_committed() -> bool:
        answer = ask(port, ApiKey.OFFSET_COMMIT, 8, group_id="hidden-group", generation_id_or_member_epoch=-1,
                     member_id="", group_instance_id=None, topics=committed)  # fmt: skip
        return bool(answer.topics[0].partitions[0].error_code is ErrorCode.none)

    ask(port, ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["hidden-group"])
    wait_until(is_committed, "a group")


@pytest.mark.slow
def test_a_client_without_rights_changes_nothing_and_is_told_nothing(cluster: SecuredCluster) -> None:
    """Requests of every API that the listener offers, in the highest version."""
    make_secrets(cluster)
    before = state(cluster)
    rng = random.Random("no rights")
    told: dict[str, int] = {}
    for key, api in sorted(APIS.items()):
        if Listener.CLIENT not in api.listeners or key is ApiKey.SASL_AUTHENTICATE:
            continue
        for _ in range(5):
            try:
                values = resolved(_values(key, request_type(key, api.max_version), NAMES, rng))
            except KeyError:
                continue
            wire = stranger(cluster)
            try:
                answer = wire.ask(key, api.max_version, **values)
            except (LocalProtocolError, OSError):  # it cannot be encoded, or the broker closes: it makes no sense
                continue
            finally:
                wire.close()
            told[key.name] = told.get(key.name, 0) + 1
            assert not [each for each in SECRETS if each in repr(answer)], f"{key.name}: {answer}"
    assert len(told) > 40, told
    assert state(cluster) == before
    assert not [line for line in cluster.stderr(1).splitlines() if "handler_failed" in line]


def files_of(cluster: SecuredCluster) -> list[str]:
    directory = Path(f"/proc/{cluster.processes[1].pid}/fd")
    found = []
    for each in directory.iterdir():
        try:
            found.append(os.readlink(each))
        except FileNotFoundError:  # closed meanwhile
            continue
    return found


@pytest.mark.slow
def test_a_file_that_a_client_without_rights_names_is_not_looked_at(cluster: SecuredCluster, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    there = cluster.files.broker
    answers = set()
    for place in ("/dev/ptmx", "/dev/zero", str(fifo), str(there), "/nowhere", "/"):
        for name in ("listener.name.ssl.ssl.keystore.location", "listener.name.ssl.ssl.truststore.location",
                     "cordoned.log.dirs"):  # fmt: skip
            wire = stranger(cluster)
            for key, operation in ((CONFIGS[0], {}), (CONFIGS[1], {"config_operation": 0})):
                resource = {"resource_type": BROKER_RESOURCE, "resource_name": "1",
                            "configs": [{"name": name, "value": place, **operation}]}  # fmt: skip
                (told,) = wire.ask(key, APIS[key].max_version, resources=[resource], validate_only=True).responses
                answers.add((told.error_code, told.error_message))
            wire.close()
    assert answers == {(ErrorCode.cluster_authorization_failed, None)}
    assert not [each for each in files_of(cluster) if "ptmx" in each or "pts" in each or each == str(fifo)]


@pytest.mark.slow
def test_a_device_that_an_administrator_names_is_refused_and_logins_go_on(
    cluster: SecuredCluster, tmp_path: Path
) -> None:
    fifo, large = tmp_path / "fifo", tmp_path / "large"
    os.mkfifo(fifo)
    with large.open("wb") as file:
        file.truncate(1 << 40)
    for place, cause in (
        ("/dev/ptmx", "regular file"), ("/dev/zero", "regular file"), (fifo, "regular file"), (large, "at most"),
    ):  # fmt: skip
        config = {"name": "listener.name.ssl.ssl.keystore.location", "config_operation": 0, "value": str(place)}
        resource = {"resource_type": BROKER_RESOURCE, "resource_name": "1", "configs": [config]}
        port = cluster.ports[1]["DIRECT"]
        (told,) = ask(port, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
        assert told.error_code is ErrorCode.invalid_request
        assert cause in told.error_message
        stranger(cluster).close()
    assert not [each for each in files_of(cluster) if "ptmx" in each or "pts" in each]
