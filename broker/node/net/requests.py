"""A request in the broker: the interface for handlers, and the class of requests that came over a connection.

It knows no API and no socket. A connection sends the answers, and tells when nobody reads them any more.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar

from broker.node.net.principal import Principal
from broker.security.authorizer import Access
from broker.wire.apis import Listener
from broker.wire.codec import RequestHeader, encode_response

if TYPE_CHECKING:
    from broker.wire.shapes.kinds import Answers, Asks

# An answer -> the answer that is sent instead.
Amend: TypeAlias = "Callable[[Answers[Any]], Answers[Any]]"
Buffer: TypeAlias = bytes | bytearray | memoryview


Asked = TypeVar("Asked", bound="Asks[Any]")  # the message of one API; it determines the type of the answer


class UnderWay(Protocol):
    """A request for code that does not read its content."""

    def take_alone(self) -> None:
        """No other request of its connection is taken before this one is answered."""

    def fail(self, cause: str) -> None:
        """The broker failed to handle this request. It gets no answer, and the peer learns this at once. `cause` is
        logged."""


class AnyRequest(UnderWay, Protocol[Asked]):
    """A request as a handler sees it. It came over a connection, or the broker sent it to itself."""

    message: Asked
    listener: Listener
    listener_name: str
    access: Access | None  # None: the client may do everything

    @property
    def version(self) -> int: ...
    @property
    def client_id(self) -> str: ...
    @property
    def principal(self) -> Principal: ...
    @property
    def peer_host(self) -> str: ...
    @property
    def is_open(self) -> bool: ...
    def respond(self, message: Answers[Asked]) -> None: ...


P = ParamSpec("P")


def guarded(request: UnderWay, callback: Callable[P, None]) -> Callable[P, None]:
    """Wraps `callback`, which another part calls later to answer `request`. An exception of the callback then ends only
    that request, and not other requests that the other part serves. See also `Dispatcher.dispatch` and
    `Services.serve`."""

    def call(*arguments: P.args, **named: P.kwargs) -> None:
        try:
            callback(*arguments, **named)
        except Exception:
            request.fail(traceback.format_exc())

    return call


class RequestOrigin(Protocol):
    """The part of a connection that its requests need."""

    listener: Listener
    listener_name: str
    is_closed: bool
    peer_host: str
    principal: Principal

    def answer_ready(self, size_bytes: int) -> None: ...
    def await_answer(self, request: Request[Any]) -> None: ...
    def request_failed(self, api_key: int, cause: str) -> None: ...
    def close(self) -> None: ...


class Request(Generic[Asked]):
    """One request, and the place for its answer in the order of answers."""

    __slots__ = (
        "_buffers",
        "_connection",
        "_is_done",
        "access",
        "amend",
        "header",
        "listener",
        "listener_name",
        "message",
    )

    def __init__(self, connection: RequestOrigin, header: RequestHeader, message: Asked) -> None:
        self._connection = connection
        self._buffers: list[Buffer] | None = None
        self._is_done = False
        self.header = header
        self.message = message
        self.access: Access | None = None  # set if there is an authorizer: what the client may do
        # set if a part of the request was refused, or if the client may not see all of the answer
        self.amend: Amend | None = None
        self.listener = connection.listener
        self.listener_name = connection.listener_name

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""

    @property
    def peer_host(self) -> str:
        """The client's address in Kafka's form, `/127.0.0.1`."""
        return self._connection.peer_host

    @property
    def principal(self) -> Principal:
        """The client's principal, as the connection has authenticated it so far."""
        return self._connection.principal

    @property
    def is_open(self) -> bool:
        """False if nobody will read the answer any more."""
        return not self._is_done and not self._connection.is_closed

    def connection_check(self) -> Callable[[], bool]:
        """A function that tells at any later time whether the connection is still open."""
        connection = self._connection
        return lambda: not connection.is_closed

    def amend_answer(self, change: Callable[[Any], Any]) -> None:
        """Changes the answer of this API before it is sent, after earlier changes."""
        before = self.amend
        self.amend = change if before is None else lambda message: change(before(message))

    def respond(self, message: Answers[Asked]) -> None:
        """Answers the request. It must be called exactly once, at once or later. If the connection is gone, it does
        nothing. It never raises: if an answer cannot be encoded, the request fails, and the caller continues its own
        work."""
        if self._connection.is_closed:
            return
        header = self.header
        try:
            if self.amend is not None:
                message = self.amend(message)
            frame = encode_response(header.api_key, header.api_version, header.correlation_id, message)
        except Exception:
            self.fail(traceback.format_exc())
            return
        self._finish(frame)

    def respond_frame(self, frame: list[Buffer]) -> None:
        """Answers with an encoded frame."""
        assert self.amend is None, "a frame is not amended"
        if not self._connection.is_closed:
            self._finish(frame)

    def respond_nothing(self) -> None:
        """With acks=0 the client expects no answer."""
        self._finish([])

    def close_connection(self) -> None:
        """Closes the connection. By this the peer learns of an error without an answer."""
        self._connection.close()

    def take_alone(self) -> None:
        """No other request of this connection is taken before this one is answered. The frame stays valid until
        then."""
        self._connection.await_answer(self)

    @property
    def is_done(self) -> bool:
        return self._is_done

    def fail(self, cause: str) -> None:
        """The broker failed to handle this request. The peer sees a closed connection, so it does not know the
        outcome."""
        self._connection.request_failed(self.header.api_key, cause)

    def _finish(self, buffers: list[Buffer]) -> None:
        assert not self._is_done, "one answer a request"
        self._is_done = True
        self._buffers = buffers
        self._connection.answer_ready(len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers)))

    def take(self) -> list[Buffer] | None:
        return self._buffers
