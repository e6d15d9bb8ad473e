"""The connection to a peer: what its time limits count, and that a peer that is back is reached again."""

from __future__ import annotations

import asyncio
import struct
import time

import pytest

from broker.node.net.channel import BACKOFF_MS_MAX, Channel, ChannelError
from broker.node.net.dialling import Dialler
from broker.node.process.logs import Logger
from broker.node.settings.security import ListenerSecurity, Protocol, SaslSettings, TokenSettings
from broker.node.settings.values import Address
from broker.security.jaas import MODULES, JaasEntry
from broker.wire.apis import ApiKey
from broker.wire.codec import decode_request, encode_response
from broker.wire.errors import ErrorCode
from broker.wire.messages import request as make_request
from broker.wire.messages import response
from harness.clusters.ports import free_port

pytestmark = pytest.mark.slow  # sockets, and seconds of backoff
TIMEOUT_MS = 300  # shorter than the longest backoff
ANSWERS_AFTER_S = 0.1


def frame(correlation_id: int, client_id: str) -> list[bytes | bytearray | memoryview]:
    return [struct.pack(">ii", 4, correlation_id)]


async def answer_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            asked = await reader.readexactly(8)
            await asyncio.sleep(ANSWERS_AFTER_S)
            writer.write(asked)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def succeeds(channel: Channel) -> bool:
    try:
        await channel.request_encoded(frame, lambda _: object(), timeout_ms=TIMEOUT_MS)
    except ChannelError:
        return False
    return True


def test_a_request_has_its_whole_time_after_the_backoff() -> None:
    """Steps: the peer is away until the backoff is longer than a request may take. It comes back. If the backoff
    counted in the time of a request, each request would be over before the dial, and its end would begin the next
    backoff. The peer would never be reached again (seed 7222: a follower that never fetched)."""

    async def body() -> None:
        port = free_port()
        channel = Channel(
            name="test", address=lambda: Address(host="127.0.0.1", port=port), client_id="test", logger=Logger(1)
        )
        began = time.monotonic()
        while time.monotonic() - began < 5 * BACKOFF_MS_MAX / 1000:  # 50, 100, 200, 400 and 500 ms
            assert not await succeeds(channel)
        server = await asyncio.start_server(answer_late, "127.0.0.1", port)
        try:
            while not await succeeds(channel):  # a busy host takes the time of the first ones
                pass
        finally:
            channel.close()
            server.close()

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await body()

    asyncio.run(bounded())


SESSION_MS = 400
ENOUGH = 4  # proofs


class Peer:
    """Listens for SASL PLAIN, and closes the connection if anything else comes in the middle of a proof."""

    def __init__(self, password: str = "secret") -> None:
        self.password = password
        self.connections = self.proofs = self.out_of_place = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        is_proving = False
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                header, message = decode_request(await reader.readexactly(size))
                key = header.api_key
                if is_proving is not (key == ApiKey.SASL_AUTHENTICATE):
                    self.out_of_place += 1
                    return
                is_proving = key == ApiKey.SASL_HANDSHAKE
                if key == ApiKey.SASL_HANDSHAKE:
                    answer = response(key, 1, error_code=ErrorCode.none, mechanisms=["PLAIN"])
                elif key == ApiKey.SASL_AUTHENTICATE:
                    answer = self._judge(message.auth_bytes)
                else:
                    answer = response(key, header.api_version, error_code=ErrorCode.none, topics=[])
                writer.writelines(encode_response(key, header.api_version, header.correlation_id, answer))
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    def _judge(self, token: bytes) -> object:
        if token != f"\0broker\0{self.password}".encode():
            error = ErrorCode.sasl_authentication_failed
            return response(ApiKey.SASL_AUTHENTICATE, 2, error_code=error, error_message="no", auth_bytes=b"")
        self.proofs += 1
        return response(
            ApiKey.SASL_AUTHENTICATE, 2, error_code=ErrorCode.none, error_message=None, auth_bytes=b"",
            session_lifetime=SESSION_MS,
        )  # fmt: skip


def plain_security(password: str) -> ListenerSecurity:
    tokens = TokenSettings(
        jwks_url="", refresh_ms=1, audiences=(), issuer="", clock_skew_ms=0, scope_claim="", subject_claim=""
    )
    entry = JaasEntry(MODULES["PLAIN"], {"username": "broker", "password": password})
    sasl = SaslSettings(
        mechanisms=("PLAIN",), entries={"PLAIN": entry}, max_reauth_ms={"PLAIN": 0}, receive_bytes_max=1 << 20,
        failed_delay_ms=0, tokens=tokens,
    )  # fmt: skip
    return ListenerSecurity(protocol=Protocol.SASL_PLAINTEXT, sasl=sasl)


async def asks(channel: Channel) -> None:
    message = make_request(ApiKey.METADATA, 12, topics=[], allow_auto_topic_creation=False)
    await channel.request(ApiKey.METADATA, 12, message, timeout_ms=60_000)


def test_sessions_are_renewed_on_the_same_connection_while_requests_go_on() -> None:
    async def body() -> None:
        port, peer = free_port(), Peer()
        server = await asyncio.start_server(peer.serve, "127.0.0.1", port)
        channel = Channel(
            name="test",
            address=lambda: Address(host="127.0.0.1", port=port),
            client_id="test",
            logger=Logger(1),
            dialler=Dialler(plain_security("secret"), name="test", mechanism="PLAIN", logger=Logger(1)),
        )
        try:
            async with asyncio.timeout(60):
                while peer.proofs < ENOUGH:
                    await asyncio.gather(*(asks(channel) for _ in range(5)))
                    await asyncio.sleep(0.02)
                # A session that ended while nobody asked anything is begun anew as well.
                await asyncio.sleep(2 * SESSION_MS / 1000)
                await asks(channel)
                assert (peer.connections, peer.out_of_place) == (1, 0)
                # Who is not believed any more dials again, and the requests fail as with any connection.
                peer.password = "another"
                with pytest.raises(ChannelError):
                    while True:
                        await asks(channel)
                peer.password = "secret"
                while True:
                    try:
                        await asks(channel)
                        break
                    except ChannelError:
                        continue
                assert peer.connections > 1
        finally:
            channel.close()
            server.close()

    asyncio.run(body())
