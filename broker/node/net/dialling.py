"""How this broker connects to another one: plain, with TLS or with SASL, as the other broker's listener requires.

Both brokers have the same settings for the listener. This broker authenticates with the username and password of the
listener's jaas entry for the mechanism. For OAUTHBEARER it makes a token itself, with the subject from that entry. It
authenticates at the beginning of a connection and again before its session ends (KIP-368; channel.py).
Shown by tests/broker_node/test_node_secured_cluster.py.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import struct
from typing import Final, NamedTuple, cast

from broker.node.net.tls import Contexts, client_context
from broker.node.process.clock import wall_ms
from broker.node.process.logs import Logger
from broker.node.settings.config import NodeConfig
from broker.node.settings.security import LISTENER, PLAINTEXT, ListenerSecurity, SecurityError, security_of
from broker.node.settings.values import Address
from broker.security.jaas import JaasEntry
from broker.security.sasl_client import HASHES, Plain, SaslClient, SaslError, Scram
from broker.wire.apis import ApiKey
from broker.wire.codec import decode_response, encode_request
from broker.wire.errors import ErrorCode, ProtocolError
from broker.wire.framing import FrameReader
from broker.wire.messages import Message
from broker.wire.messages import request as make_request

PLAIN_TIMEOUT_S = 1.0
# Connecting and authenticating have this long together. A handshake takes time on a busy host.
SECURED_TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 1 << 20  # limit for an answer before the other side is authenticated
TOKEN_LIFE_S = 3_600
RENEW_AT = 0.8  # share of a session's lifetime
TOKEN_SUBJECT: Final = "unsecuredLoginStringClaim_sub"


class Dialler:
    """There is one for each kind of link. Raises SecurityError if a file or an entry is missing."""

    def __init__(self, security: ListenerSecurity, *, name: str, mechanism: str, logger: Logger) -> None:
        self._mechanism, self._name, self._logger = mechanism, name, logger
        self._entry: JaasEntry | None = None
        self._contexts: Contexts | None = None
        if security.tls is not None:
            self._contexts = Contexts(name, security.tls, logger, client_context)
        if security.sasl is not None:
            self._entry = security.sasl.entries.get(mechanism)
            self._check(name, security)

    def _check(self, name: str, security: ListenerSecurity) -> None:
        key = f"{LISTENER}{name.lower()}.{self._mechanism.lower()}.sasl.jaas.config"
        assert security.sasl is not None
        if self._mechanism not in security.sasl.mechanisms:
            enabled = ", ".join(security.sasl.mechanisms)
            raise SecurityError(key, f"brokers use {self._mechanism} among themselves, and enabled are {enabled}")
        wanted = (TOKEN_SUBJECT,) if self._mechanism == "OAUTHBEARER" else ("username", "password")
        missing = [each for each in wanted if self._entry is None or each not in self._entry.options]
        if missing:
            raise SecurityError(key, f"it needs {' and '.join(missing)}: who this broker is when it dials another one")

    def reconfigure(self, config: NodeConfig) -> None:
        """Takes the certificates of these settings for new connections. If they cannot be used, the old ones stay, and
        a log line says so. The entry for SASL is that of the properties file, as in Apache Kafka."""
        if self._contexts is None:
            return
        try:
            security = security_of(config, self._name)
        except SecurityError as error:
            self._logger.warning("security_kept", listener=self._name, cause=repr(str(error)))
            return
        if security.tls is not None:
            self._contexts.reconfigure(security.tls)

    async def connect(self, channel: asyncio.BufferedProtocol, address: Address) -> float | None:
        """Connects. The channel's `connection_made` is called when requests may be sent. Returns for how long they may
        be sent, in s; None means for ever. Raises OSError, which includes TimeoutError."""
        loop = asyncio.get_running_loop()
        if self._contexts is None and self._entry is None:
            async with asyncio.timeout(PLAIN_TIMEOUT_S):
                await loop.create_connection(lambda: channel, address.host, address.port)
            return None
        async with asyncio.timeout(SECURED_TIMEOUT_S):
            proof = self.proof()
            first = channel if proof is None else _Proving(proof)
            transport, _ = await loop.create_connection(
                lambda: first,
                address.host,
                address.port,
                ssl=None if self._contexts is None else await self._contexts.current(),
                server_hostname=None if self._contexts is None else address.host,
            )
            if not isinstance(first, _Proving):
                return None
            try:
                lifetime_s = await first.done
            except BaseException:
                transport.abort()
                raise
        transport.set_protocol(channel)
        channel.connection_made(transport)
        return lifetime_s

    def proof(self) -> Proof | None:
        """A new SASL exchange. None if there is no authentication, or a certificate does it."""
        return None if self._entry is None else Proof(self._mechanism, self._client())

    def _client(self) -> SaslClient:
        assert self._entry is not None
        options = self._entry.options
        if self._mechanism == "OAUTHBEARER":
            return _OwnToken(options[TOKEN_SUBJECT])
        if self._mechanism == "PLAIN":
            return Plain(username=options["username"], password=options["password"])
        return Scram(
            hash_name=HASHES[self._mechanism],
            username=options["username"],
            password=options["password"],
            nonce=secrets.token_hex(16),
        )


def plain_dialler(logger: Logger) -> Dialler:
    return Dialler(PLAINTEXT, name="", mechanism="", logger=logger)


def internal_dialler(config: NodeConfig, logger: Logger) -> Dialler:
    """The dialler for the listener between brokers."""
    name, mechanism = config.listening.internal_listener, config.security.sasl_mechanism_inter_broker_protocol
    return Dialler(security_of(config, name), name=name, mechanism=mechanism, logger=logger)


def controller_dialler(config: NodeConfig, logger: Logger) -> Dialler:
    name, mechanism = config.listening.controller_listener, config.security.sasl_mechanism_controller_protocol
    security = security_of(config, name)
    if security.sasl is not None and mechanism.startswith("SCRAM"):
        key = "sasl.mechanism.controller.protocol"
        raise SecurityError(
            key, f"{mechanism} cannot work: its credentials lie in what this listener brings; use PLAIN"
        )
    return Dialler(security, name=name, mechanism=mechanism, logger=logger)


class _OwnToken:
    """An unsigned token of this broker, for the default handler of Kafka."""

    def __init__(self, subject: str) -> None:
        self._subject = subject

    def first(self) -> bytes:
        now_s = wall_ms() / 1000
        claims = {"sub": self._subject, "iat": now_s, "exp": now_s + TOKEN_LIFE_S}
        token = ".".join((_part({"alg": "none"}), _part(claims), ""))
        return f"n,,\x01auth=Bearer {token}\x01\x01".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise SaslError(f"the token is refused: {challenge.decode(errors='replace')[:100]}")
        return None


def _part(fields: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()


class Asked(NamedTuple):
    """The next request of an exchange."""

    key: ApiKey
    version: int
    message: Message


class Proof:
    """The SASL exchange with another broker, as messages: `begin` gives the first request. `take` gets each answer and
    gives the next request, until it returns None."""

    def __init__(self, mechanism: str, client: SaslClient) -> None:
        self.mechanism, self._client = mechanism, client
        self._has_begun = False
        self.lifetime_s: float | None = None  # how long requests may be sent after the exchange; None: for ever

    def begin(self) -> Asked:
        return Asked(ApiKey.SASL_HANDSHAKE, 1, make_request(ApiKey.SASL_HANDSHAKE, 1, mechanism=self.mechanism))

    def take(self, answer: Message) -> Asked | None:
        """The next request. None if the exchange has succeeded. Raises SaslError, or ValueError for a message that is
        no answer of this mechanism."""
        if answer.error_code != ErrorCode.none:
            message = getattr(answer, "error_message", None) or answer.error_code.name
            raise SaslError(f"refused: {message}")
        if not self._has_begun:
            self._has_begun = True
            token: bytes | None = self._client.first()
        else:
            token = self._client.answer(bytes(answer.auth_bytes))
        if token is not None:
            message = make_request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token)
            return Asked(ApiKey.SASL_AUTHENTICATE, 2, message)
        lifetime_s = answer.session_lifetime.total_seconds()
        self.lifetime_s = RENEW_AT * lifetime_s if lifetime_s else None
        return None


class _Proving(asyncio.BufferedProtocol):
    """Runs a `Proof` on a new connection, before the channel gets the connection. `done` gets its `lifetime_s`, or
    OSError."""

    def __init__(self, proof: Proof) -> None:
        self._proof = proof
        self._reader = FrameReader(frame_bytes_max=ANSWER_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._asked: Asked | None = None
        self.done: asyncio.Future[float | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._ask(self._proof.begin())

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"closed by the peer: {exc or 'authentication failed, perhaps'}")

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.writable()

    def eof_received(self) -> bool:
        return False

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.written(nbytes)
        try:
            frame = self._reader.next_frame()
            if frame is not None and not self.done.done():
                self._take(frame)
        except (ProtocolError, SaslError, struct.error, ValueError) as error:
            self._fail(f"{self._proof.mechanism}: {error}")

    def _take(self, frame: memoryview) -> None:
        assert self._asked is not None
        following = self._proof.take(decode_response(self._asked.key, self._asked.version, frame)[1])
        if following is not None:
            self._ask(following)
        else:
            self.done.set_result(self._proof.lifetime_s)

    def _ask(self, asked: Asked) -> None:
        assert self._transport is not None
        self._asked = asked
        self._transport.write(b"".join(encode_request(asked.key, asked.version, 0, "broker", asked.message)))

    def _fail(self, cause: str) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionAbortedError(cause))
