"""The SASL exchange on one connection: which request comes next, and what the broker's answer means.

SaslHandshake version 1 comes first, then tokens inside SaslAuthenticate (KIP-152). If the broker limits the session
(connections.max.reauth.ms), the same exchange is repeated on the connection before that time ends (KIP-368). Pure: it
gives and takes messages. `direct.py` runs the exchange with blocking calls, `connection.py` between pipelined requests.
Shown by tests/broker_client/test_client_authentication.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from broker.client.core.errors import AuthenticationError
from broker.security.sasl_client import Credentials, SaslClient, SaslError, sasl_client
from broker.wire.errors import ErrorCode, error_name
from broker.wire.messages import Message, build, request_type, to_ms

# Only a broker with SASL offers these two APIs, and in this package only clients use them.
SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36
_HANDSHAKE_VERSION: Final = 1  # version 0 sends tokens without frames; nobody uses it any more
_AUTHENTICATE_VERSION_MAX: Final = 2
TOKENS_MAX: Final = 8  # tokens in one exchange: SCRAM needs three
# Java re-authenticates after 85 to 95 % of the session. So clients that connected together do not all re-authenticate
# together.
_WINDOW: Final = (0.85, 0.95)
NEVER_MS: Final = 2**62


class SaslRequest(NamedTuple):
    api_key: int
    version: int
    message: Message


# The versions (lowest, highest) of an API that the broker told in ApiVersions.
Offered: TypeAlias = Callable[[int], tuple[int, int] | None]


class Authentication:
    """The authentication of one connection, for its whole life. `spread` (0 to 1) chooses the moment of the
    re-authentication in its window."""

    def __init__(
        self,
        credentials: Credentials,
        offered: Offered,
        *,
        new_nonce: Callable[[], str],
        spread: float,
    ) -> None:
        assert 0 <= spread <= 1
        self._credentials, self._offered, self._new_nonce, self._spread = credentials, offered, new_nonce, spread
        self._client: SaslClient | None = None
        self._token_count = 0
        self.is_under_way = False
        self.again_at_ms = NEVER_MS  # from this time on, the next request waits for a new exchange

    def begin(self) -> SaslRequest:
        """The first request. Raises AuthenticationError if the broker offers no SASL."""
        assert not self.is_under_way
        mechanism = self._credentials.mechanism
        for api_key, version in ((SASL_HANDSHAKE, _HANDSHAKE_VERSION), (SASL_AUTHENTICATE, 0)):
            versions = self._offered(api_key)
            if versions is None or not versions[0] <= version <= versions[1]:
                raise AuthenticationError(f"the broker offers no SASL on this listener, {mechanism} was to be used")
        self.is_under_way = True
        self._client, self._token_count = None, 0
        return SaslRequest(SASL_HANDSHAKE, _HANDSHAKE_VERSION, _built(SASL_HANDSHAKE, 1, mechanism=mechanism))

    def on_answer(self, message: Message, now_ms: int) -> SaslRequest | None:
        """The next request, or None if the authentication has succeeded. Raises AuthenticationError if the broker
        refuses this client, or if the broker cannot prove its own identity (SCRAM). Raises OSError if no token for
        OAUTHBEARER can be fetched."""
        assert self.is_under_way
        try:
            token = self._first_token(message) if self._client is None else self._next_token(self._client, message)
        except SaslError as error:
            raise AuthenticationError(f"{self._credentials.mechanism}: {error}") from error
        if token is None:
            self._finish(message, now_ms)
            return None
        self._token_count += 1
        if self._token_count > TOKENS_MAX:
            raise AuthenticationError(f"no end after {TOKENS_MAX} tokens of {self._credentials.mechanism}")
        versions = self._offered(SASL_AUTHENTICATE)
        assert versions is not None, "begin() looked"
        version = min(_AUTHENTICATE_VERSION_MAX, versions[1])
        return SaslRequest(SASL_AUTHENTICATE, version, _built(SASL_AUTHENTICATE, version, auth_bytes=token))

    def _first_token(self, message: Message) -> bytes:
        if message.error_code != ErrorCode.none:
            mechanism, offered = self._credentials.mechanism, ", ".join(message.mechanisms)
            if message.error_code == ErrorCode.unsupported_sasl_mechanism:
                raise SaslError(f"the broker offers {offered or 'no mechanism'}, and not {mechanism}")
            raise SaslError(f"{error_name(int(message.error_code))} to the handshake")
        self._client = sasl_client(self._credentials, nonce=self._new_nonce())
        return self._client.first()

    def _next_token(self, client: SaslClient, message: Message) -> bytes | None:
        if message.error_code != ErrorCode.none:
            text = f"{error_name(int(message.error_code))}: {message.error_message or 'no further word'}"
            raise SaslError(text)
        return client.answer(bytes(message.auth_bytes))

    def _finish(self, message: Message, now_ms: int) -> None:
        self.is_under_way = False
        self._client = None
        lifetime_ms = to_ms(getattr(message, "session_lifetime", 0))  # from version 1 on
        low, high = _WINDOW
        share = low + (high - low) * self._spread
        self.again_at_ms = now_ms + int(lifetime_ms * share) if lifetime_ms > 0 else NEVER_MS


def _built(api_key: int, version: int, **values: object) -> Message:
    return build(request_type(api_key, version), values)


NewAuthentication: TypeAlias = Callable[[Offered], Authentication]
