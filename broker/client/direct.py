"""A connection to one broker that the caller chooses. It asks one question at a time. Each question is answered within
its time or fails. There are no retries, and no other broker is asked.

It is for probes, which need the answer of *this* broker. A connection can be secured by TLS and SASL. Shown by
tests/broker_client/test_client_conversation.py and tests/harness/test_harness_hostile.py.
"""

from __future__ import annotations

import itertools
import secrets
import socket
import ssl
import time
from typing import Final, Protocol

from broker.client.core.authentication import Authentication, SaslRequest
from broker.client.core.conversation import Conversation, Pending
from broker.client.core.errors import AuthenticationError, KafkaError, TimedOutError
from broker.client.question import Question, Result
from broker.security.sasl_client import Credentials
from broker.wire.apis import ApiKey
from broker.wire.encoder import Buffer
from broker.wire.errors import ErrorCode, ProtocolError
from broker.wire.framing import FrameReader
from broker.wire.messages import Message

__all__ = ["AuthenticationError", "DirectConnection", "Security"]

# The answer to a fetch has at most the size that was asked for plus one batch (max.message.bytes). Every other question
# is about one topic.
FETCHED_BYTES_MAX: Final = 64 << 20
ANSWER_BYTES_MAX: Final = 16 << 20
ELEMENTS_MAX: Final = 200_000  # in all arrays of an answer together: enough for 28,000 partitions with three replicas
SECURE_TIMEOUT_S: Final = 10.0  # the minimum for a connection that first needs a TLS handshake and authentication
_RECEIVE_BYTES: Final = 64 * 1024
_NO_DEADLINE: Final = 0  # `Pending` wants one, but here the whole question has a deadline.


class Security(Protocol):
    """How a connection is secured. A field that is None means: no TLS, or no SASL."""

    @property
    def context(self) -> ssl.SSLContext | None: ...
    @property
    def credentials(self) -> Credentials | None: ...


class DirectConnection:
    """The first question opens the connection, the first failure closes it, and the next question opens it again. Only
    one thread may use it at a time."""

    def __init__(
        self, host: str, port: int, *, client_id: str, timeout_s: float, security: Security | None = None
    ) -> None:
        self._address, self._client_id, self._security = (host, port), client_id, security
        self._limit_s = timeout_s if security is None else max(timeout_s, SECURE_TIMEOUT_S)
        self._socket: socket.socket | None = None
        self._conversation = Conversation(client_id, itertools.count())

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, question: Question[Result]) -> Result:
        """Raises KafkaError with the broker's error, NETWORK_EXCEPTION or TimedOutError if the broker does not answer
        or breaks the protocol, and AuthenticationError if the broker does not accept this client.

        There is one deadline for the whole question, so a peer that sends single bytes slowly gets no more time than a
        silent one.
        """
        who, deadline_s = f"{self._address[0]}:{self._address[1]}", time.monotonic() + self._limit_s
        is_sent = False
        try:
            opened = self._connected(deadline_s)
            version = question.version(self._conversation.version, who)
            message = question.build(version)
            is_sent = True
            return question.parse(self._exchange(opened, question.api_key, version, message, deadline_s))
        except TimeoutError as error:
            self.close()
            raise TimedOutError(f"{who}: no answer to {question.api_key.name} in time", definite=not is_sent) from error
        except (OSError, ValueError, OverflowError, EOFError, ProtocolError) as error:
            self.close()
            text = f"{who}: {type(error).__name__}: {error}"
            raise KafkaError(ErrorCode.network_exception, text, definite=not is_sent) from error

    def _connected(self, deadline_s: float) -> socket.socket:
        if self._socket is None:
            opened = socket.create_connection(self._address, timeout=_left_s(deadline_s))
            try:
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._conversation = Conversation(self._client_id, itertools.count(), elements_max=ELEMENTS_MAX)
                context = None if self._security is None else self._security.context
                if context is not None:
                    opened = self._over_tls(opened, context, deadline_s)
                self._greet(opened, deadline_s)
                credentials = None if self._security is None else self._security.credentials
                if credentials is not None:
                    self._authenticate(opened, credentials, deadline_s)
            except BaseException:
                opened.close()
                raise
            self._socket = opened
        return self._socket

    def _greet(self, opened: socket.socket, deadline_s: float) -> None:
        buffers = self._conversation.greet(None, _NO_DEADLINE)
        if not self._conversation.on_greeted(self._answer(opened, buffers, ANSWER_BYTES_MAX, deadline_s)):
            buffers = self._conversation.greet(None, _NO_DEADLINE, version=0)
            self._conversation.on_greeted(self._answer(opened, buffers, ANSWER_BYTES_MAX, deadline_s))

    def _over_tls(self, opened: socket.socket, context: ssl.SSLContext, deadline_s: float) -> socket.socket:
        try:
            opened.settimeout(_left_s(deadline_s))
            return context.wrap_socket(opened, server_hostname=self._address[0])
        except ssl.SSLEOFError:  # the broker closed the connection without a reason
            raise
        except ssl.SSLError as error:
            raise AuthenticationError(str(error)) from error

    def _authenticate(self, opened: socket.socket, credentials: Credentials, deadline_s: float) -> None:
        authentication = Authentication(
            credentials, self._conversation.offered, new_nonce=lambda: secrets.token_urlsafe(24), spread=0
        )
        asked: SaslRequest | None = authentication.begin()
        while asked is not None:
            answer = self._exchange(opened, *asked, deadline_s)
            asked = authentication.on_answer(answer, int(time.monotonic() * 1000))

    def _exchange(
        self, opened: socket.socket, api_key: int, version: int, message: Message, deadline_s: float
    ) -> Message:
        buffers = self._conversation.ask(Pending(api_key, version, None, True, _NO_DEADLINE), message)
        size_bytes_max = FETCHED_BYTES_MAX if api_key == ApiKey.FETCH else ANSWER_BYTES_MAX
        return self._answer(opened, buffers, size_bytes_max, deadline_s)

    def _answer(self, opened: socket.socket, buffers: list[Buffer], size_bytes_max: int, deadline_s: float) -> Message:
        """Writes the request and reads one frame. Each frame has its own memory, so its content stays valid."""
        opened.settimeout(_left_s(deadline_s))
        opened.sendall(b"".join(buffers))
        reader = FrameReader(frame_bytes_max=size_bytes_max)
        while (frame := reader.next_frame()) is None:
            opened.settimeout(_left_s(deadline_s))
            count = opened.recv_into(reader.writable(_RECEIVE_BYTES))
            if not count:
                raise EOFError("connection closed")
            reader.written(count)
        return self._conversation.take(frame)[1]


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the answer did not come in time")
    return left_s
