"""The parts of an authorization rule: what is needed (data, for the page), and the steps that check it.

A step looks at a request before its handler does. It refuses the request as a whole (it returns the answer), or takes
out of it what is refused and adds that to the answer, or hides parts of the answer. The handler knows nothing of it.
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

# Any: a request of any API; which one, the table says.
AnyApi: TypeAlias = Request[Any]
# Returns the answer if the request is refused as a whole.
Step: TypeAlias = Callable[[Access, Services, AnyApi], Any | None]
Item: TypeAlias = Any  # one element of an array of a request
Entry: TypeAlias = Mapping[str, Any]  # fields of one element of an answer; none at all: it is not told of

DENIED = "Authorization failed."  # Apache Kafka's words, where an answer has room for some

FAILED: Mapping[ResourceType, ErrorCode] = {
    ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
    ResourceType.GROUP: ErrorCode.group_authorization_failed,
    ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One line of the page: the operation, the kind of resource, and what its absence means."""

    operation: Operation
    resource: ResourceType
    otherwise: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Without needs: everybody may ask. `steps` are taken in order; some needs are looked at by the handler itself."""

    needs: tuple[Need, ...] = ()
    steps: tuple[Step, ...] = ()
    note: str = ""


def rule(*parts: tuple[Need, Step], note: str = "", also: Iterable[Need] = ()) -> Rule:
    """`also`: needs that a step or the handler looks at beside its own."""
    needs = tuple(dict.fromkeys([*(need for need, _ in parts), *also]))
    return Rule(needs=needs, steps=tuple(step for _, step in parts), note=note)


def access_of(services: Services, request: AnyApi) -> Access:
    """Raises RemoteProtocolError while it cannot be decided: the client comes again."""
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
    """`named` finds the resource in the message (None: there is none, nothing is needed). `refuse` makes the answer;
    None: one with the error code at its top."""
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
    """The answer to it, of whatever API it is. Fields that its version lacks are left out."""
    return build(response_type(ApiKey(request.header.api_key), request.version), values)


def all_in(field: str, entry: Callable[[Item, ErrorCode], Entry], answered: str) -> Callable[[AnyApi, ErrorCode], Any]:
    """Refuses each element of `field` of the request."""

    def refuse(request: AnyApi, error: ErrorCode) -> Any:
        return _answer(request, answered, [entry(item, error) for item in getattr(request.message, field) or ()])

    return refuse


def _answer(request: AnyApi, answered: str, entries: list[Entry]) -> Any:
    return made(request, **{answered: entries})


# -- one element after the other -------------------------------------------------------------------------------------


def each(
    operation: Operation,
    resource: ResourceType,
    field: str,
    entry: Callable[[Item, ErrorCode], Entry],
    answered: str,
    named: Callable[[Services, Item], str | None] = lambda services, item: str(item.name),
) -> tuple[Need, Step]:
    """Elements of `field` that are refused are answered by `entry`, the handler gets the others. An element whose
    resource is unknown (`named` returns None) is the handler's to answer."""
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
        amend(request, lambda message: _joined(message, told, answered))
        return None

    return step


def _joined(message: Any, told: Any, answered: str) -> Any:
    return replace(message, **{answered: (*getattr(message, answered), *getattr(told, answered))})


def amend(request: AnyApi, change: Callable[[Any], Any]) -> None:
    """Change the answer before it goes out, after earlier changes."""
    before = request.amend
    request.amend = change if before is None else lambda message: change(before(message))


# -- the answer ------------------------------------------------------------------------------------------------------


def hiding(
    operation: Operation, resource: ResourceType, answered: str, named: Callable[[Item], str], otherwise: str
) -> tuple[Need, Step]:
    """Elements of the answer that the client may not know of are left out."""

    def step(access: Access, services: Services, request: AnyApi) -> None:
        def hidden(message: Any) -> Any:
            kept = tuple(item for item in getattr(message, answered) if access.could(operation, resource, named(item)))
            return replace(message, **{answered: kept})

        amend(request, hidden)

    return Need(operation=operation, resource=resource, otherwise=otherwise), step
