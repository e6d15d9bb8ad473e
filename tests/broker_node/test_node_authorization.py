"""Every API has its rule, every rule refuses in every version, and what is partly refused is partly answered.

The same requests to Apache Kafka: `python -m tests.differential --guarded`.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from broker.node.api_table import api_table
from broker.node.authorization_page import PAGE, page
from broker.node.features.table import FEATURES
from broker.node.handlers.authorization.table import authorized
from broker.node.handlers.rows import Handler
from broker.node.net.principal import ANONYMOUS
from broker.node.net.requests import Request
from broker.security.acls import CLUSTER_NAME, AclBinding, Operation, PatternType, Permission, ResourceType
from broker.security.authorizer import Authorizer
from broker.wire.apis import APIS, ApiKey, Listener
from broker.wire.codec import RequestHeader, decode_response
from broker.wire.errors import ErrorCode, RemoteProtocolError
from broker.wire.messages import build, request_type, response, response_type

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.differential.generator import _values
from tests.differential.values import Names, Symbol

APIS_HERE = api_table(FEATURES)
RULES, TABLE = APIS_HERE.rules, APIS_HERE.rows
NAMES = Names("d99v9")
T, U = NAMES.topics
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
# What the handlers themselves look at, request by request, and what tells everybody something.
IN_HANDLERS = {
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.DESCRIBE_CLUSTER,
}
HIDING = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS}
OPEN = {  # to everybody
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.SASL_AUTHENTICATE,
}


class Origin:
    """A connection that keeps what goes out."""

    def __init__(self, listener: Listener = Listener.CLIENT) -> None:
        self.listener, self.listener_name, self.is_closed = listener, "EXTERNAL", False
        self.peer_host, self.principal = "/10.0.0.1", ANONYMOUS
        self.failed: list[str] = []

    def answer_ready(self, size_bytes: int) -> None:
        pass

    def request_failed(self, api_key: int, cause: str) -> None:
        self.failed.append(cause)


def services(*bindings: AclBinding, **settings: Any) -> Any:
    authorizer = Authorizer(**settings)
    for each in bindings:
        authorizer.add(each)
    authorizer.is_loaded = True
    image = SimpleNamespace(topic_names={UUID(int=1): T, UUID(int=2): U}, topics={T: None, U: None}, brokers={1: None})
    denials = SimpleNamespace(note=lambda *_: None)
    return SimpleNamespace(authorizer=authorizer, denials=denials, metadata=SimpleNamespace(image=image))


def allow(
    kind: ResourceType, name: str, operation: Operation, pattern: PatternType = PatternType.LITERAL
) -> AclBinding:
    return AclBinding(kind, name, pattern, "User:ANONYMOUS", "10.0.0.1", operation, Permission.ALLOW)


def asked(key: ApiKey, version: int, values: Any, listener: Listener = Listener.CLIENT) -> tuple[Request[Any], Origin]:
    origin = Origin(listener)
    header = RequestHeader(api_key=key, api_version=version, correlation_id=1, client_id="c", body_position=0)
    return Request(origin, header, build(request_type(key, version), values)), origin  # type: ignore[arg-type]


def answer_of(request: Request[Any], origin: Origin) -> Any:
    assert not origin.failed, origin.failed
    frame = b"".join(bytes(each) for each in request.take() or [])
    assert frame, "no answer"
    return decode_response(request.header.api_key, request.version, frame[4:])[1]


def errors_in(message: Any) -> set[ErrorCode]:
    if isinstance(message, tuple):
        return set().union(*map(errors_in, message))
    if not hasattr(message, "__dataclass_fields__"):
        return set()
    found = set()
    for name in message.__dataclass_fields__:
        value = getattr(message, name)
        found |= {value} if isinstance(value, ErrorCode) else errors_in(value)
    return found


def resolved(value: Any) -> Any:
    if isinstance(value, Symbol):
        return {"topic": UUID(int=1), "producer": 5, "epoch": 0, "member": "m"}[value.kind]
    if isinstance(value, dict):
        return {name: resolved(each) for name, each in value.items()}
    return [resolved(each) for each in value] if isinstance(value, list | tuple) else value


def test_every_api_has_its_rule_and_the_page_tells_it() -> None:
    assert set(RULES) == set(TABLE) == set(APIS)
    assert [key for key, rule in RULES.items() if not rule.needs] == sorted(OPEN)
    assert PAGE.read_text() == page(), "run: python -m broker.node.authorization_page"


def test_without_an_authorizer_handlers_are_called_as_they_are() -> None:
    handlers, checked = APIS_HERE.handlers(), APIS_HERE.authorized_handlers()
    assert handlers[ApiKey.HEARTBEAT] is not checked[ApiKey.HEARTBEAT]
    handed_on = {key for key, row in TABLE.items() if row.forward is not None}  # by a function made for each table
    assert all(handlers[key] is checked[key] for key in OPEN - handed_on)


def guarded(key: ApiKey, handle: Handler) -> Handler:
    """As `authorized`, with the rule of this API."""
    return authorized(RULES[key], key, handle)


def is_let_through(key: ApiKey, request: Request[Any], *bindings: AclBinding) -> bool:
    reached: list[Any] = []
    guarded(key, lambda _, request: reached.append(request))(services(*bindings), request)
    return bool(reached)


@pytest.mark.parametrize("key", sorted(set(RULES) - IN_HANDLERS - HIDING - OPEN), ids=lambda key: key.name)
def test_whoever_may_do_nothing_is_refused_in_every_version(key: ApiKey) -> None:
    rng = random.Random(key.name)
    refused = 0
    for version in range(APIS[key].min_version, APIS[key].max_version + 1):
        for _ in range(5):
            try:
                values = resolved(_values(key, request_type(key, version), NAMES, rng))
            except KeyError:  # of a controllers' API, whose rule looks at no field
                values = {}
            try:
                request, origin = asked(key, version, values)
            except TypeError:  # it has fields that must be given
                continue
            if is_let_through(key, request):  # nothing in it needs a permission: an unknown id, no element
                continue
            refused += 1
            errors = errors_in(answer_of(request, origin)) - {ErrorCode.none}
            assert not errors or all("authorization_failed" in each.name for each in errors)
    assert refused or APIS[key].listeners == {Listener.CONTROLLER}


def test_a_part_of_a_request_is_refused_and_the_rest_is_handled() -> None:
    partitions = [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]
    topics = [{"name": name, "partitions": partitions} for name in (T, U)]
    request, origin = asked(ApiKey.LIST_OFFSETS, 7, {"replica_id": -1, "isolation_level": 0, "topics": topics})

    def handle(_: Any, narrowed: Request[Any]) -> None:
        assert [topic.name for topic in narrowed.message.topics] == [U]
        found = [{"partition_index": 0, "error_code": 0, "timestamp": 5, "offset": 7, "leader_epoch": 1}]
        narrowed.respond(response(ApiKey.LIST_OFFSETS, 7, topics=[{"name": U, "partitions": found}]))

    guarded(ApiKey.LIST_OFFSETS, handle)(services(allow(TOPIC, U, Operation.READ)), request)
    told = {topic.name: topic.partitions[0].error_code for topic in answer_of(request, origin).topics}
    assert told == {T: ErrorCode.topic_authorization_failed, U: ErrorCode.none}


def test_groups_that_a_client_may_not_describe_are_left_out() -> None:
    for bindings, seen in (
        ((allow(GROUP, "mine", Operation.READ),), ["mine"]),
        ((allow(ResourceType.CLUSTER, CLUSTER_NAME, Operation.DESCRIBE),), ["mine", "other"]),
        ((), []),
    ):
        request, origin = asked(ApiKey.LIST_GROUPS, 4, {"states_filter": []})
        groups = [{"group_id": name, "protocol_type": "", "group_state": ""} for name in ("mine", "other")]
        handle = lambda _, request, groups=groups: request.respond(  # noqa: E731
            response(ApiKey.LIST_GROUPS, 4, error_code=0, groups=groups)
        )
        guarded(ApiKey.LIST_GROUPS, handle)(services(*bindings), request)
        assert [each.group_id for each in answer_of(request, origin).groups] == seen


@pytest.mark.parametrize("error", [ErrorCode.none, ErrorCode.invalid_group_id])
@pytest.mark.parametrize("key", [ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS])
def test_an_error_of_a_share_group_is_told_without_the_topics_that_were_refused(key: ApiKey, error: ErrorCode) -> None:
    is_alter = key is ApiKey.ALTER_SHARE_GROUP_OFFSETS
    parts = {"partitions": [{"partition_index": 0, "start_offset": 3}]} if is_alter else {}
    topics = [{"topic_name": name, **parts} for name in (T, U)]
    request, origin = asked(key, 0, {"group_id": "g", "topics": topics})

    def handle(_: Any, narrowed: Request[Any]) -> None:
        assert [topic.topic_name for topic in narrowed.message.topics] == [U]
        done = {"partitions": []} if is_alter else {"error_code": 0}
        told = [{"topic_name": U, "topic_id": UUID(int=2), **done}]
        narrowed.respond(build(response_type(key, 0), {"error_code": error, "responses": told if not error else []}))

    group = allow(GROUP, "g", Operation.READ if is_alter else Operation.DELETE)
    guarded(key, handle)(services(group, allow(TOPIC, U, Operation.READ)), request)
    answer = answer_of(request, origin)
    assert answer.error_code is error
    assert [each.topic_name for each in answer.responses] == ([] if error else [U, T])


@pytest.mark.parametrize("may", [True, False])
def test_on_the_controllers_listener_whoever_acts_for_the_cluster_is_trusted(may: bool) -> None:
    bindings = [allow(ResourceType.CLUSTER, CLUSTER_NAME, Operation.CLUSTER_ACTION)] if may else []
    values = {"topics": [{"name": T, "count": 2, "assignments": None}], "timeout": 0, "validate_only": False}
    request, _ = asked(ApiKey.CREATE_PARTITIONS, 3, values, Listener.CONTROLLER)
    assert is_let_through(ApiKey.CREATE_PARTITIONS, request, *bindings) == may


def test_before_the_lists_are_known_only_super_users_are_answered() -> None:
    reached: list[Any] = []
    for user in ("User:ANONYMOUS", "User:other"):
        broker = services(super_users=[user], allows_without_acl=True)
        broker.authorizer.is_loaded = False
        request, _ = asked(ApiKey.LIST_GROUPS, 4, {"states_filter": []})
        if user == "User:ANONYMOUS":
            guarded(ApiKey.LIST_GROUPS, lambda _, request: reached.append(request))(broker, request)
        else:
            with pytest.raises(RemoteProtocolError, match="not known yet"):
                guarded(ApiKey.LIST_GROUPS, lambda _, request: reached.append(request))(broker, request)
    assert len(reached) == 1
