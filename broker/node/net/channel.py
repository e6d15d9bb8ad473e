"""A connection to a peer. It sends requests and matches answers by correlation id. Each request has a time limit.

If the link is silently broken, the time limit of the oldest request shows it. The connection is then dropped, all its
requests fail, and the next request connects again (after a failure not before the end of the backoff). As in Kafka's
NetworkClient, the backoff does not count as a part of a request's time. Otherwise a request with a time limit shorter
than the backoff would end before the connect, and its failure would begin the next backoff, for ever. Both sides are
brokers of this project and know the highest common versions, so there is no ApiVersions exchange between brokers.

If the peer limits sessions, the channel re-authenticates on the same connection before the session ends (KIP-368).
During the exchange the peer accepts no other request, so requests wait until it has ended.
Shown by tests/broker_node/test_node_channel.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from broker.node.net.dialling import Asked, Dialler, Proof, plain_dialler
from broker.node.process.logs import Logger
from broker.node.settings.values import Address
from broker.security.sasl_client import SaslError
from broker.wire.codec import decode_response, decode_response_correlation_id, encode_request
from broker.wire.errors import ProtocolError
from broker.wire.framing import FrameReader
from broker.wire.messages import Message

if TYPE_CHECKING:
    from broker.wire.shapes.kinds import Asks

Reply = TypeVar("Reply")
AddressSource: TypeAlias = Callable[[], Address | None]
Answer: TypeAlias = Callable[[Message | None], None]  # None: the request failed, and its outcome is unknown
Buffer: TypeAlias = bytes | bytearray | memoryview
Encode: TypeAlias = Callable[[int, str], list[Buffer]]
Decode: TypeAlias = Callable[[memoryview], Message]

BACKOFF_MS = 50
BACKOFF_MS_MAX = 500
WAITING_REQUESTS_MAX = 1_000
PROOF_TIMEOUT_S = 10.0  # A re-authentication has this long, with the answers to earlier requests.


class ChannelError(Exception):
    """There was no answer: the connection was refused or broken, or the time was over. It is unknown whether the peer
    acted."""


class _Waiting:
    __slots__ = ("answer", "deadline_s", "decode")

    def __init__(self, decode: Decode, answer: Answer, deadline_s: float) -> None:
        self.decode, self.answer, self.deadline_s = decode, answer, deadline_s


class Channel(asyncio.BufferedProtocol):
    def __init__(
        self, *, name: str, address: AddressSource, client_id: str, logger: Logger, dialler: Dialler | None = None
    ) -> None:
        """`dialler` makes the connection to the peer. None means plain text."""
        self._name = name
        self._dialler = dialler or plain_dialler(logger)
        self._renew_s: float | None = None  # loop time from which the session must be renewed
        self._is_proving = False  # a re-authentication is under way: requests wait in `_unsent`
        self._address = address
        self._client_id = client_id
        self._logger = logger
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._unsent: list[tuple[int, list[Buffer]]] = []
        self._next_correlation_id = 0
        self._connecting: asyncio.Task[None] | None = None
        self._not_before_s = 0.0  # loop time before which there is no new connect
        self._backoff_ms = BACKOFF_MS
        self._is_closed = False
        self._is_failing = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0  # loop time for which the timer is set

    # -- requests ----------------------------------------------------------------------------------------------------

    def send(self, api_key: int, version: int, message: Message, *, timeout_ms: int, answer: Answer) -> None:
        """`answer` is called exactly once, from the event loop and never from within `send`. This happens at the latest
        after `timeout_ms` plus the backoff (at most BACKOFF_MS_MAX).

        Fetched records in the message are memoryviews of the receive buffer. `answer` must use them before it returns.
        """

        def encode(correlation_id: int, client_id: str) -> list[Buffer]:
            return encode_request(api_key, version, correlation_id, client_id, message)

        def decode(frame: memoryview) -> Message:
            return decode_response(api_key, version, frame)[1]

        self.exchange(encode, decode, timeout_ms=timeout_ms, answer=answer)

    def exchange(self, encode: Encode, decode: Decode, *, timeout_ms: int, answer: Answer) -> None:
        """As `send`, for callers that encode and decode the frames themselves. `encode(correlation id, client id)`
        makes the frame."""
        loop = asyncio.get_running_loop()
        if self._renew_s is not None and loop.time() >= self._renew_s:
            self._renew_s = None
            self._prove_again()
        if self._is_closed or len(self._waiting) >= WAITING_REQUESTS_MAX:
            loop.call_soon(answer, None)
            return
        deadline_s = max(loop.time(), self._not_before_s) + timeout_ms / 1000
        correlation_id, buffers = self._note(encode, _Waiting(decode, answer, deadline_s))
        if self._transport is not None and not self._is_proving:
            self._transport.writelines(buffers)
            return
        self._unsent.append((correlation_id, buffers))
        if self._transport is None and self._connecting is None:
            self._connecting = loop.create_task(self._connect())

    def _note(self, encode: Encode, waiting: _Waiting) -> tuple[int, list[Buffer]]:
        """Notes a request that waits for its answer from now on. Returns (correlation id, frame)."""
        self._next_correlation_id = correlation_id = (self._next_correlation_id + 1) & 0x7FFFFFFF
        buffers = encode(correlation_id, self._client_id)
        self._waiting[correlation_id] = waiting
        if self._timer is None or waiting.deadline_s < self._timer_s:
            self._set_timer(waiting.deadline_s)
        return correlation_id, buffers

    async def request(self, api_key: int, version: int, message: Asks[Reply], *, timeout_ms: int) -> Reply:
        """Raises ChannelError. Records of a Fetch answer are valid until the next request on this channel."""
        future, answer = _future_answer()
        self.send(api_key, version, message, timeout_ms=timeout_ms, answer=answer)
        reply: Reply = await self._answer_to(future, f"api key {api_key}")
        return reply

    async def request_encoded(self, encode: Encode, decode: Decode, *, timeout_ms: int) -> Message:
        """As `request`, but the caller encodes and decodes the frames."""
        future, answer = _future_answer()
        self.exchange(encode, decode, timeout_ms=timeout_ms, answer=answer)
        return await self._answer_to(future, "a request")

    async def _answer_to(self, future: asyncio.Future[Message | None], what: str) -> Message:
        response = await future
        if response is None:
            raise ChannelError(f"{self._name}: no answer to {what}")
        return response

    def close(self) -> None:
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        self._drop("closed", is_failure=False)

    # -- connection --------------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(max(0.0, self._not_before_s - loop.time()))
            address = self._address()
            if address is None:
                raise OSError("no address known")
            lifetime_s = await self._dialler.connect(self, address)
            self._renew_s = None if lifetime_s is None else loop.time() + lifetime_s
        except (TimeoutError, OSError) as error:
            self._connecting = None
            self._drop(f"dial: {error or type(error).__name__}", is_failure=True)
        else:
            self._connecting = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._is_closed:
            cast("asyncio.Transport", transport).abort()
            return
        # uvloop's class has the same methods, but does not inherit from it
        self._transport = cast("asyncio.Transport", transport)
        self._reader = FrameReader()
        self._send_unsent()

    def _send_unsent(self) -> None:
        assert self._transport is not None
        unsent, self._unsent = self._unsent, []
        for correlation_id, buffers in unsent:
            if correlation_id in self._waiting:
                self._transport.writelines(buffers)

    # -- re-authentication -------------------------------------------------------------------------------------------

    def _prove_again(self) -> None:
        """Begins a re-authentication. Earlier requests are answered first, because the peer answers in the order of the
        requests."""
        proof = self._dialler.proof()
        if proof is None or self._transport is None:
            return
        self._is_proving = True
        self._ask_for(proof, proof.begin(), asyncio.get_running_loop().time() + PROOF_TIMEOUT_S)

    def _ask_for(self, proof: Proof, asked: Asked, deadline_s: float) -> None:
        key, version, message = asked

        def encode(correlation_id: int, client_id: str) -> list[Buffer]:
            return encode_request(key, version, correlation_id, client_id, message)

        def decode(frame: memoryview) -> Message:
            return decode_response(key, version, frame)[1]

        def answer(reply: Message | None) -> None:
            # if it is None, the connection is gone, and the next one begins with an authentication
            if reply is not None:
                self._take_proof(proof, reply, deadline_s)

        assert self._transport is not None
        self._transport.writelines(self._note(encode, _Waiting(decode, answer, deadline_s))[1])

    def _take_proof(self, proof: Proof, reply: Message, deadline_s: float) -> None:
        try:
            following = proof.take(reply)
        except (SaslError, ValueError) as error:
            self._drop(f"{proof.mechanism}, again: {error}", is_failure=True)
            return
        if following is not None:
            self._ask_for(proof, following, deadline_s)
            return
        self._is_proving = False
        if proof.lifetime_s is not None:
            self._renew_s = asyncio.get_running_loop().time() + proof.lifetime_s
        self._send_unsent()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._drop(f"lost: {exc}" if exc else "closed by the peer", is_failure=True)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.writable()

    def eof_received(self) -> bool:
        return False

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.written(nbytes)
        try:
            while (frame := self._reader.next_frame()) is not None:
                correlation_id = decode_response_correlation_id(frame)
                waiting = self._waiting.get(correlation_id)
                if waiting is None:
                    continue  # this request timed out; the connection will close soon
                message = waiting.decode(frame)  # if the frame cannot be decoded, this request fails with the others
                del self._waiting[correlation_id]
                self._backoff_ms, self._is_failing = BACKOFF_MS, False
                waiting.answer(message)
        except ProtocolError as error:
            self._drop(str(error), is_failure=True)

    def _set_timer(self, deadline_s: float) -> None:
        """Sets the one timer for all requests to the earliest deadline. A timer for each request costs more than its
        frame."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = deadline_s
        self._timer = asyncio.get_running_loop().call_at(deadline_s, self._look_at_deadlines)

    def _look_at_deadlines(self) -> None:
        self._timer = None
        earliest_s = min((waiting.deadline_s for waiting in self._waiting.values()), default=None)
        if earliest_s is None:
            return
        if earliest_s <= self._timer_s:
            self._drop("no answer in time", is_failure=True)
        else:
            self._set_timer(earliest_s)

    def _drop(self, cause: str, *, is_failure: bool) -> None:
        """Closes this connection. All requests on it fail."""
        transport, self._transport = self._transport, None
        self._is_proving, self._renew_s = False, None
        if transport is not None:
            transport.abort()
        waiting, self._waiting = self._waiting, {}
        self._unsent = []
        if is_failure:
            if waiting and not self._is_failing:
                self._is_failing = True  # there is one log line for each outage, not for each attempt
                self._logger.warning("channel_failed", channel=self._name, requests=len(waiting), cause=repr(cause))
            self._not_before_s = asyncio.get_running_loop().time() + self._backoff_ms / 1000
            self._backoff_ms = min(2 * self._backoff_ms, BACKOFF_MS_MAX)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for each in waiting.values():
            each.answer(None)


def _future_answer() -> tuple[asyncio.Future[Message | None], Answer]:
    future: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()

    def answer(response: Message | None) -> None:
        if not future.done():
            future.set_result(response)

    return future, answer
