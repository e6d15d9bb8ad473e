"""SASL on a connection. The client must authenticate before anything else is answered, and again when its session ends.

There is one `Authenticator` for each listener, with its mechanisms and users. There is one `Authentication` for each
connection. It stands between the requests and the handlers, and lets these requests through:

- before authentication: ApiVersions, SaslHandshake, then SaslAuthenticate (or tokens without a request after
  SaslHandshake version 0)
- after authentication: all requests, until the session ends (KIP-368)
- then SaslHandshake begins a re-authentication, at most once a second; the user must stay the same

If an authentication fails, the client gets the answer after connection.failed.authentication.delay.ms, and the
connection closes. So guessing passwords is slow. Shown, with a real process, by tests/broker_node/test_node_sasl.py.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol, TypeAlias

from broker.node.net.principal import Principal
from broker.node.net.rate_limited_log import SparseWarnings
from broker.node.net.requests import Request
from broker.node.net.signing_keys import SigningKeys
from broker.node.process.clock import monotonic_ms, wall_ms
from broker.node.settings.security import SaslSettings
from broker.security.oauthbearer import OAuthBearerServer
from broker.security.plain import PlainServer
from broker.security.sasl import Outcome, SaslRefusedError, SaslServer
from broker.security.scram import FindCredential, ScramServer
from broker.security.tokens import Accepted, Rules, UnknownKeyError, accept
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode, RemoteProtocolError
from broker.wire.messages import response

AUTHENTICATION_TIMEOUT_S = 30.0
REAUTHENTICATION_MS_MIN = 1_000  # minimum time between two re-authentications, as in Kafka
Dispatch: TypeAlias = Callable[[Request[Any]], None]


class Authenticated(Protocol):
    """The part of a connection that authentication needs."""

    is_closed: bool
    peer_host: str
    principal: Principal

    def take_frames(self, take: Callable[[memoryview], None] | None) -> None: ...
    def limit_frames(self, size_bytes: int | None) -> None: ...
    def answer_bytes(self, data: bytes) -> None: ...
    def throttle(self, wait_ms: int) -> None: ...
    def finish(self) -> None: ...
    def abort(self) -> None: ...


class Authenticator:
    """`find` returns the SCRAM credentials of users. `keys` are the keys of signed tokens, or None if tokens are not
    signed."""

    def __init__(
        self,
        *,
        settings: SaslSettings,
        find: FindCredential,
        keys: SigningKeys | None,
        warnings: SparseWarnings,
    ) -> None:
        self.settings, self.warnings = settings, warnings
        self._find, self._keys = find, keys

    def server(self, mechanism: str) -> SaslServer:
        if mechanism == "PLAIN":
            return PlainServer(lambda: self.settings.entries["PLAIN"].users)
        if mechanism == "OAUTHBEARER":
            return OAuthBearerServer(self._accept)
        return ScramServer(mechanism, self._find, nonce=secrets.token_hex(16))

    def lifetime_ms(self, mechanism: str, expires_ms: int | None) -> int | None:
        """The lifetime of a session that begins now. None if it does not end."""
        ends = [self.settings.max_reauth_ms[mechanism]] if self.settings.max_reauth_ms[mechanism] else []
        if expires_ms is not None:
            ends.append(max(0, expires_ms - wall_ms()))
        return min(ends) if ends else None

    def _accept(self, token: str) -> Accepted:
        tokens = self.settings.tokens
        rules = Rules(
            subject_claim=tokens.subject_claim,
            scope_claim=tokens.scope_claim,
            audiences=tokens.audiences,
            issuer=tokens.issuer,
            clock_skew_ms=tokens.clock_skew_ms,
        )
        try:
            return accept(token, rules, None if self._keys is None else self._keys.by_id, wall_ms())
        except UnknownKeyError:
            assert self._keys is not None
            self._keys.unknown()
            raise


class _State(Enum):
    HANDSHAKE = "ApiVersions or SaslHandshake"
    TOKENS = "SaslAuthenticate"
    BARE_TOKENS = "a token"
    DONE = "anything"
    FAILED = "nothing"


class Authentication:
    """It must be created when the connection is open. `dispatch` takes the requests after authentication."""

    def __init__(self, connection: Authenticated, authenticator: Authenticator, dispatch: Dispatch) -> None:
        self._connection, self._authenticator, self._dispatch = connection, authenticator, dispatch
        self._state = _State.HANDSHAKE
        self._server: SaslServer | None = None
        self._mechanism = ""
        self._is_again = False  # True: this is a re-authentication
        self._wrong_mechanism = ""  # the mechanism of a re-authentication, if it differs from the first one
        self._again_ms: int | None = None  # monotonic time when the last re-authentication began
        self._ends_ms: int | None = None  # monotonic time when the session ends
        connection.limit_frames(authenticator.settings.receive_bytes_max)
        self._timer: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(
            AUTHENTICATION_TIMEOUT_S, self._is_late
        )

    def closed(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def dispatch(self, request: Request[Any]) -> None:
        """If it raises RemoteProtocolError, the connection logs the error and closes."""
        key = request.header.api_key
        if self._state is _State.DONE:
            self._dispatch_known(request, key)
        elif self._state is _State.HANDSHAKE and key == ApiKey.API_VERSIONS:
            self._dispatch(request)
        elif self._state is _State.HANDSHAKE and key == ApiKey.SASL_HANDSHAKE:
            self._shake_hands(request)
        elif self._state is _State.TOKENS and key == ApiKey.SASL_AUTHENTICATE:
            self._authenticate(request)
        elif self._state is _State.TOKENS and key == ApiKey.SASL_HANDSHAKE:
            self._fail(request, self._refused_handshake(request, ErrorCode.illegal_sasl_state), "another handshake")
        else:
            raise RemoteProtocolError(f"before authentication: expected {self._state.value}, got api key {key}")

    # -- after authentication -----------------------------------------------------------------------------------------

    def _dispatch_known(self, request: Request[Any], key: int) -> None:
        now_ms = monotonic_ms()
        may_begin = self._again_ms is None or now_ms - self._again_ms >= REAUTHENTICATION_MS_MIN
        if key == ApiKey.SASL_HANDSHAKE and may_begin:
            self._is_again, self._again_ms = True, now_ms
            self._shake_hands(request)
        elif self._ends_ms is not None and now_ms >= self._ends_ms:
            raise RemoteProtocolError(f"the session of {self._connection.principal} has ended")
        else:
            self._dispatch(request)

    # -- handshake ----------------------------------------------------------------------------------------------------

    def _shake_hands(self, request: Request[Any]) -> None:
        mechanism, settings = request.message.mechanism, self._authenticator.settings
        if mechanism not in settings.mechanisms:
            answer = self._refused_handshake(request, ErrorCode.unsupported_sasl_mechanism)
            self._fail(request, answer, f"mechanism {mechanism[:40]!r} is not enabled")
            return
        self._wrong_mechanism = mechanism if self._is_again and mechanism != self._mechanism else ""
        self._mechanism = self._mechanism or mechanism
        self._server = self._authenticator.server(self._mechanism)
        request.respond(
            response(
                ApiKey.SASL_HANDSHAKE, request.version, error_code=ErrorCode.none, mechanisms=list(settings.mechanisms)
            )
        )
        self._state = _State.TOKENS
        if request.version == 0:
            self._state = _State.BARE_TOKENS
            self._connection.take_frames(self._take_token)

    def _refused_handshake(self, request: Request[Any], error: ErrorCode) -> Any:
        mechanisms = list(self._authenticator.settings.mechanisms)
        return response(ApiKey.SASL_HANDSHAKE, request.version, error_code=error, mechanisms=mechanisms)

    # -- tokens -------------------------------------------------------------------------------------------------------

    def _authenticate(self, request: Request[Any]) -> None:
        try:
            outcome = self._evaluate(bytes(request.message.auth_bytes))
        except SaslRefusedError as error:
            answer = response(
                ApiKey.SASL_AUTHENTICATE,
                request.version,
                error_code=ErrorCode.sasl_authentication_failed,
                error_message=str(error),
                auth_bytes=b"",
            )
            self._fail(request, answer, str(error))
            return
        lifetime_ms = self._succeed(outcome) if outcome.user is not None else 0
        fields = {"session_lifetime": lifetime_ms} if request.version >= 1 else {}
        request.respond(
            response(
                ApiKey.SASL_AUTHENTICATE,
                request.version,
                error_code=ErrorCode.none,
                error_message=None,
                auth_bytes=outcome.token,
                **fields,
            )
        )

    def _take_token(self, frame: memoryview) -> None:
        """Takes a token without a request around it. Clients since 2016 may send tokens like this, with SaslHandshake
        version 0."""
        if self._state is not _State.BARE_TOKENS:
            return  # the authentication has failed, and the connection will close after the delay
        try:
            outcome = self._evaluate(bytes(frame))
        except SaslRefusedError as error:
            self._fail(None, None, str(error))
            return
        self._connection.answer_bytes(struct.pack(">i", len(outcome.token)) + outcome.token)
        if outcome.user is not None:
            self._connection.take_frames(None)
            self._succeed(outcome)

    def _evaluate(self, token: bytes) -> Outcome:
        assert self._server is not None
        if self._wrong_mechanism:
            raise SaslRefusedError(
                f"SASL mechanism '{self._wrong_mechanism}' requested by client is not supported for "
                f"re-authentication of mechanism '{self._mechanism}'"
            )
        outcome = self._server.evaluate(token)
        before = self._connection.principal
        if self._is_again and outcome.user is not None and outcome.user != before.name:
            raise SaslRefusedError(
                f"Cannot change principals during re-authentication from {before.kind}.{before.name}: "
                f"User.{outcome.user}"
            )
        return outcome

    # -- success and failure ------------------------------------------------------------------------------------------

    def _succeed(self, outcome: Outcome) -> int:
        """The authentication has succeeded. Returns the session lifetime for the client in ms; 0 means that the session
        does not end."""
        assert outcome.user is not None
        self.closed()  # cancels the time limit
        self._server, self._state = None, _State.DONE
        self._connection.limit_frames(None)
        self._connection.principal = Principal("User", outcome.user)
        lifetime_ms = self._authenticator.lifetime_ms(self._mechanism, outcome.expires_ms)
        self._ends_ms = None if lifetime_ms is None else monotonic_ms() + lifetime_ms
        return lifetime_ms or 0

    def _fail(self, request: Request[Any] | None, answer: Any, cause: str) -> None:
        """The authentication has failed. Nothing more is read. After the delay the answer is sent, if there is one, and
        the connection closes."""
        self._state = _State.FAILED
        delay_ms = self._authenticator.settings.failed_delay_ms
        self._authenticator.warnings.tell(
            peer=self._connection.peer_host, mechanism=self._mechanism or "none", cause=repr(cause)
        )

        due_ms = monotonic_ms() + delay_ms + 1  # one more, because the present millisecond has already begun

        def end() -> None:
            # The timers of uvloop use whole milliseconds of a clock that is rounded down. So a timer may end one
            # millisecond early.
            if (left_ms := due_ms - monotonic_ms()) > 0:
                loop.call_later(left_ms / 1000, end)
                return
            if request is not None:
                request.respond(answer)
            self._connection.finish()

        loop = asyncio.get_running_loop()
        self._connection.throttle(delay_ms + 1)
        loop.call_later(delay_ms / 1000, end)

    def _is_late(self) -> None:
        self._authenticator.warnings.tell(
            peer=self._connection.peer_host, mechanism=self._mechanism or "none", cause=repr("not in time")
        )
        self._connection.abort()
