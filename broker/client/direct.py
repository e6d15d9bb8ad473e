"""A connection to one broker of the caller's choice: one question at a time. Each is answered within its time or not at
all. Nothing is asked again, and no other broker is asked.

It is for probes, which want to know what *this* broker says. A connection can be secured by TLS and SASL. Shown by
tests/broker_client/test_client_conversation.py and tests/harness/test_harness_hostile.py.
"""

from __future__ import annotations

import itertools
import secrets
import socket
import ssl
import time
from typing import Final, Protocol

from broker.client.core.conversation import Conversation, Pending
from broker.client.core.errors import LOCAL_ERROR_CODE, KafkaError, TimedOutError
from broker.client.core.sasl import SaslError, sasl_client
from broker.client.question import Question, Result
from broker.wire.apis import ApiKey
from broker.wire.encoder import Buffer
from broker.wire.errors import ErrorCode, ProtocolError, error_name
from broker.wire.framing import FrameReader
from broker.wire.messages import Message, build, request_type

# A fetch answer has the asked size plus at most one batch (max.message.bytes). Every other question is about one topic.
FETCHED_BYTES_MAX: Final = 64 << 20
ANSWER_BYTES_MAX: Final = 16 << 20
ELEMENTS_MAX: Final = 200_000  # of all arrays of an answer together: 28,000 partitions with three replicas
SECURE_TIMEOUT_S: Final = 10.0  # at least, for a connection that must first do a handshake and authenticate
_RECEIVE_BYTES: Final = 64 * 1024
_NO_DEADLINE: Final = 0  # of `Pending`: the whole question has one
# Not among the broker's own, so not in ApiKey.
_SASL_HANDSHAKE: Final = (17, 1)
_SASL_AUTHENTICATE: Final = (36, 2)


def _built(api: tuple[int, int], **values: object) -> Message:
    return build(request_type(*api), values)


class Security(Protocol):
    """How a connection is secured. An empty `mechanism`: no SASL."""

    @property
    def is_tls(self) -> bool: ...
    @property
    def mechanism(self) -> str: ...
    @property
    def username(self) -> str: ...
    @property
    def password(self) -> str: ...
    def context(self) -> ssl.SSLContext: ...


class AuthenticationError(KafkaError):
    """The broker does not accept our name, password or certificate, or we do not accept its certificate. Asking again
    would not help."""

    def __init__(self, message: str) -> None:
        self.reason = message
        super().__init__(LOCAL_ERROR_CODE, message, name="LOCAL_AUTHENTICATION")


class DirectConnection:
    """The first question opens it, the first failure closes it, and the next question opens it again. For one thread at
    a time."""

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
        """Raises KafkaError with what the broker says, NETWORK_EXCEPTION or TimedOutError if it does not answer or
        answers wrongly, and AuthenticationError if it does not let us in.

        There is one deadline for everything, so a peer that drips bytes gets no more time than a silent one.
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
                if self._security is not None:
                    opened = self._secured(opened, self._security, deadline_s)
                self._greet(opened, deadline_s)
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

    def _secured(self, opened: socket.socket, security: Security, deadline_s: float) -> socket.socket:
        try:
            if security.is_tls:
                opened.settimeout(_left_s(deadline_s))
                opened = security.context().wrap_socket(opened, server_hostname=self._address[0])
            if security.mechanism:
                self._authenticate(opened, security, deadline_s)
        except (ssl.SSLError, SaslError) as error:
            raise AuthenticationError(str(error)) from error
        return opened

    def _authenticate(self, opened: socket.socket, security: Security, deadline_s: float) -> None:
        """SaslHandshake version 1, then tokens inside SaslAuthenticate (KIP-152)."""
        mechanism = security.mechanism
        handshake = self._exchange(opened, *_SASL_HANDSHAKE, _built(_SASL_HANDSHAKE, mechanism=mechanism), deadline_s)
        if int(handshake.error_code) != 0:
            raise SaslError(f"the broker offers {', '.join(handshake.mechanisms)}, and not {mechanism}")
        client = sasl_client(mechanism, security.username, security.password, nonce=secrets.token_urlsafe(24))
        token: bytes | None = client.first()
        while token is not None:
            message = _built(_SASL_AUTHENTICATE, auth_bytes=token)
            answer = self._exchange(opened, *_SASL_AUTHENTICATE, message, deadline_s)
            if int(answer.error_code) != 0:
                raise SaslError(f"{error_name(int(answer.error_code))}: {answer.error_message or 'no further word'}")
            token = client.answer(bytes(answer.auth_bytes))

    def _exchange(
        self, opened: socket.socket, api_key: int, version: int, message: Message, deadline_s: float
    ) -> Message:
        buffers = self._conversation.ask(Pending(api_key, version, None, True, _NO_DEADLINE), message)
        size_bytes_max = FETCHED_BYTES_MAX if api_key == ApiKey.FETCH else ANSWER_BYTES_MAX
        return self._answer(opened, buffers, size_bytes_max, deadline_s)

    def _answer(self, opened: socket.socket, buffers: list[Buffer], size_bytes_max: int, deadline_s: float) -> Message:
        """Write, and read one frame. Each has memory of its own, so what it holds stays valid."""
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
