"""The columns of the handler table (table.py): which function handles an API, and whether requests are forwarded to the
active controller.

Three kinds of API:
- `handle`: this broker answers.
- `controller`: the controller core of this node decides. Two functions make its event and the answer.
- `forward`, besides one of these: on any listener except the controllers' the request is forwarded to the active
  controller.

`refusal` is checked on every listener, after the authorization of the client: who may not send a request learns nothing
else, and no work is done for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from broker.controller.types import ControllerRequest
from broker.node.handlers.forwarding import Forward, forward
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest, Asked, Request
from broker.wire.apis import ApiKey, Listener

if TYPE_CHECKING:
    from broker.wire.shapes.kinds import Answers

# Its argument is a request of a connection or of this broker itself. The type is Any, because only the former can be
# closed.
Handler: TypeAlias = Callable[[Services, Any], None]
# It is called with the token of the request.
MakeEvent: TypeAlias = Callable[[int], ControllerRequest]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerApi(Generic[Asked]):
    """`answer` makes the response from the controller's result. The result has the type Any, because each request has
    its own."""

    event: Callable[[Services, AnyRequest[Asked]], MakeEvent]
    answer: Callable[[Services, AnyRequest[Asked], Any], Answers[Asked]]

    def ask(self, services: Services, request: AnyRequest[Asked]) -> None:
        def answer(result: Any) -> None:  # the result for this request
            request.respond(self.answer(services, request, result))

        services.ask_controller(request, self.event(services, request), answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Generic[Asked]):
    """Invariant: exactly one of `handle` and `controller` is set. All columns belong to one API, whose request is
    `Asked`."""

    handle: Callable[[Services, Request[Asked]], None] | None = None
    controller: ControllerApi[Asked] | None = None
    forward: Forward[Asked, Any] | None = None  # Any: the answer to `Asked`; no type variable can express it
    # the answer, if only one answer is possible for every client that may send the request
    refusal: Callable[[Services, AnyRequest[Asked]], Answers[Asked] | None] | None = None

    def __post_init__(self) -> None:
        assert (self.handle is None) != (self.controller is None)

    @property
    def module(self) -> str:
        """The name of the module that describes the API."""
        found = self.handle if self.controller is None else self.controller.event
        assert found is not None
        return found.__module__


def handler_of(key: ApiKey, row: Row[Any], guard: Callable[[ApiKey, Handler], Handler] | None = None) -> Handler:
    """Makes one function from the columns. For an API without them it is `handle` itself. `guard` checks the
    permissions of the client, before everything else."""
    handle = row.handle if row.controller is None else row.controller.ask
    assert handle is not None
    if row.forward is not None:
        handle = _forwarded(key, row.forward, handle)
    if row.refusal is not None:
        handle = _refused(row.refusal, handle)
    return handle if guard is None else guard(key, handle)


def _forwarded(key: ApiKey, how: Forward[Any, Any], handle: Handler) -> Handler:
    def on_the_controller(services: Services, request: AnyRequest[Any]) -> None:
        if request.listener is Listener.CONTROLLER:
            handle(services, request)
        else:
            services.serve(request, forward(services, request, key, how))

    return on_the_controller


def _refused(refusal: Callable[[Services, AnyRequest[Asked]], Answers[Asked] | None], handle: Handler) -> Handler:
    def unless_refused(services: Services, request: AnyRequest[Asked]) -> None:
        answer = refusal(services, request)
        if answer is None:
            handle(services, request)
        else:
            request.respond(answer)

    return unless_refused
