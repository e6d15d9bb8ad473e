"""The parts of an authorization rule: the permissions that it needs (data, for the page), and the steps that check
them.

A step runs before the handler of a request. It does one of three things: it refuses the whole request (it returns the
answer), or it removes the denied elements from the request and adds their errors to the answer, or it hides parts of
the answer. The handler knows nothing about it.
Shown by tests/broker_node/test_node_authorization.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from broker.node.handlers.services import Services
from broker.node.net.requests import Request
from broker.security.acls import CLUSTER_NAME, Operation, ResourceType
from broker.security.authorizer import Access
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode, RemoteProtocolError
from broker.wire.messages import build, response_type

# The type is Any: a request of any API. The table says which one.
AnyApi: TypeAlias = Request[Any]
# A step returns the answer if the whole request is refused.
Step: TypeAlias = Callable[[Access, Services, AnyApi], Any | None]
Item: TypeAlias = Any  # one element of an array of a request
# fields of one element of an answer; if there are no fields, the element is left out
Entry: TypeAlias = Mapping[str, Any]

DENIED = "Authorization failed."  # the message of Apache Kafka, for answers that have a field for it

FAILED: Mapping[ResourceType, ErrorCode] = {
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One line of the page: the operation, the kind of resource, and what happens without this permission."""

    operation: Operation
    resource: ResourceType
    otherwise: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """If there are no needs, every client may send the request. `steps` run in order. The handler itself checks some of
    the needs."""

    needs: tuple[Need, ...] = ()
    steps: tuple[Step, ...] = ()
    note: str = ""


def rule(*parts: tuple[Need, Step], note: str = "", also: Iterable[Need] = ()) -> Rule:
    """`also` are further needs that a step or the handler checks."""
    needs = tuple(dict.fromkeys([*(need for need, _ in parts), *also]))
    return Rule(needs=needs, steps=tuple(step for _, step in parts), note=note)


def access_of(services: Services, request: AnyApi) -> Access:
    """The permissions of the client. Raises RemoteProtocolError while the access control lists are not known yet: the
    client then tries again."""
    assert services.authorizer is not None
    assert services.denials is not None
    denied = partial(services.denials.note, request.header.api_key)
    access = Access(services.authorizer, str(request.principal), request.peer_host.removeprefix("/"), denied=denied)
    if not access.is_decidable:
        raise RemoteProtocolError("the access control lists are not known yet")
    return access


# -- the request as a whole ------------------------------------------------------------------------------------------


def whole(
    operation: Operation,
    resource: ResourceType,
    named: Callable[[Any], str | None] = lambda message: CLUSTER_NAME,
    refuse: Callable[[AnyApi, ErrorCode], Any] | None = None,
    otherwise: str = "",
) -> tuple[Need, Step]:
    """A step that allows or refuses the whole request. `named` finds the resource in the message (None: there is no
    resource, so no permission is needed). `refuse` makes the answer. If it is None, the answer has the error code at
    its top."""
    error = FAILED[resource]

    def step(access: Access, services: Services, request: AnyApi) -> Any | None:
        name = named(request.message)
        if name is None or access.may(operation, resource, name):
            return None
        return top(request, error) if refuse is None else refuse(request, error)

    text = otherwise or (f"{error.name.upper()}" if refuse is None else f"{error.name.upper()} for all that was asked")
    return Need(operation=operation, resource=resource, otherwise=text), step


def top(request: AnyApi, error: ErrorCode, **values: object) -> Any:
    return made(request, error_code=error, **values)


def made(request: AnyApi, **values: object) -> Any:
    """The answer to a request of any API. Fields that its version lacks are left out."""
    return build(response_type(ApiKey(request.header.api_key), request.version), values)


def all_in(field: str, entry: Callable[[Item, ErrorCode], Entry], answered: str) -> Callable[[AnyApi, ErrorCode], Any]:
    """Refuses each element of `field` of the request."""

    def refuse(request: AnyApi, error: ErrorCode) -> Any:
        return _answer(request, answered, [entry(item, error) for item in getattr(request.message, field) or ()])

    return refuse


def _answer(request: AnyApi, answered: str, entries: list[Entry]) -> Any:
    return made(request, **{answered: entries})


# -- each element of a request ---------------------------------------------------------------------------------------


def each(
    operation: Operation,
    resource: ResourceType,
    field: str,
    entry: Callable[[Item, ErrorCode], Entry],
    answered: str,
    named: Callable[[Services, Item], str | None] = lambda services, item: str(item.name),
) -> tuple[Need, Step]:
    """A step that checks each element of `field`. `entry` makes the answer for a denied element. The handler gets the
    others, and also an element whose resource is unknown (`named` returns None)."""
    error = FAILED[resource]

    def judge(access: Access, services: Services, item: Item) -> ErrorCode | None:
        name = named(services, item)
        return None if name is None or access.may(operation, resource, name) else error

    text = f"{error.name.upper()} for that one"
    return Need(operation=operation, resource=resource, otherwise=text), narrowing(field, judge, entry, answered)


def narrowing(
    field: str,
    judge: Callable[[Access, Services, Item], ErrorCode | None],
    entry: Callable[[Item, ErrorCode], Entry],
    answered: str,
) -> Step:
    def step(access: Access, services: Services, request: AnyApi) -> Any | None:
        kept, refused = [], []
        for item in getattr(request.message, field) or ():
            error = judge(access, services, item)
            if error is None:
                kept.append(item)
            else:
                refused.append(entry(item, error))
        if not refused:
            return None
        refused = [each for each in refused if each]
        told = _answer(request, answered, refused)
        if not kept:
            return told
        request.message = replace(request.message, **{field: tuple(kept)})
        request.amend_answer(lambda message: _joined(message, told, answered))
        return None

    return step


def _joined(message: Any, told: Any, answered: str) -> Any:
    return replace(message, **{answered: (*getattr(message, answered), *getattr(told, answered))})


def divided(items: Iterable[Item], is_allowed: Callable[[Item], bool]) -> tuple[tuple[Item, ...], list[Item]]:
    """The elements that are allowed, and the others. Each is judged once."""
    allowed: list[Item] = []
    others: list[Item] = []
    for item in items:
        (allowed if is_allowed(item) else others).append(item)
    return tuple(allowed), others


# -- the answer ------------------------------------------------------------------------------------------------------


def hiding(
    operation: Operation, resource: ResourceType, answered: str, named: Callable[[Item], str], otherwise: str
) -> tuple[Need, Step]:
    """A step that leaves out elements of the answer that the client may not know."""

    def step(access: Access, services: Services, request: AnyApi) -> None:
        def hidden(message: Any) -> Any:
            kept = tuple(item for item in getattr(message, answered) if access.could(operation, resource, named(item)))
            return replace(message, **{answered: kept})

        request.amend_answer(hidden)

    return Need(operation=operation, resource=resource, otherwise=otherwise), step
