"""One accepted connection. It turns bytes into requests, and answers into bytes, in the order of the requests.

Frames are handled in the receive buffer without a copy. So a handler must not use a frame's memory after it returns.
Answers that are ready at the same time are sent with one write. Small pieces are joined, payloads of a fetch never are
(measured: joining costs up to 0.9 CPU seconds for each GB).

These are bounded:

- requests without an answer, per connection
- the bytes of a request, and of all requests that are arriving
- the elements of a request
- answers that the peer has not read, per connection, and over all connections together (unread_answers.py)

A connection counts as a client's, or as another broker's (`is_peer`), which has its own budgets. On a listener for both
`judge` decides that at each request.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from broker.node.net.authentication import Authentication, Authenticator
from broker.node.net.limits import elements_max
from broker.node.net.memory import RequestMemory
from broker.node.net.peers import FIRST_REQUESTS, claimed_broker
from broker.node.net.principal import ANONYMOUS, Principal
from broker.node.net.requests import Buffer, Request
from broker.node.net.unread_answers import UnreadAnswers
from broker.node.process.logs import Logger
from broker.wire.apis import ApiKey, Listener
from broker.wire.codec import (
    UnsupportedVersionError,
    decode_request_body,
    decode_request_header,
    encode_unsupported_api_versions,
)
from broker.wire.errors import ProtocolError
from broker.wire.framing import FILLED_BUFFER_BYTES, INITIAL_BUFFER_BYTES, KEPT_BUFFER_BYTES, FrameReader
from broker.wire.hot_fetch import decode_fetch_request
from broker.wire.hot_produce import decode_produce_request
from broker.wire.messages import Message

# This is more than any client's max.in.flight. If there are more requests, the connection is not read until answers
# have been sent.
IN_FLIGHT_REQUESTS_MAX = 64
# Ready answers are written when they reach this size, or earlier. If the peer does not read them, its next request
# waits. So a connection holds at most this size plus the transport's 64 KiB plus one answer (fetch.max.bytes).
ANSWERS_BYTES_MAX = 256 * 1024
_PRODUCE, _FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)
JOIN_BELOW_BYTES = 16 * 1024


Dispatch: TypeAlias = Callable[[Request[Any]], None]
Judge: TypeAlias = "Callable[[Connection, Request[Any]], bool]"


def _ignore(frame: memoryview) -> None:
    """Ignores a frame of a connection that is gone."""


class Connection(asyncio.BufferedProtocol):
    def __init__(
        self,
        *,
        listener: Listener,
        listener_name: str,
        dispatch: Dispatch,
        logger: Logger,
        request_bytes_max: int,
        on_open: Callable[[Connection], bool],
        on_close: Callable[[Connection], None],
        memory: RequestMemory,
        unread: UnreadAnswers,
        authenticator: Authenticator | None = None,
        judge: Judge | None = None,
        principal: Principal = ANONYMOUS,
    ) -> None:
        """With an `authenticator`, no request goes to `dispatch` before the authentication has succeeded. None means
        that there is no authentication. `judge` sees each request until the connection is known as a broker's
        (`become_peer`). If it returns False, the connection is closed without an answer. `principal` is the peer's, as
        TLS has told it: SASL may replace it."""
        self.listener = listener
        self.listener_name = listener_name
        self.is_peer = listener is Listener.CONTROLLER
        self._judge = judge
        self.is_closed = False
        self._dispatch = dispatch
        self._logger = logger
        self._on_open, self._on_close = on_open, on_close
        self._request_bytes_max = request_bytes_max
        self._reader = FrameReader(frame_bytes_max=request_bytes_max, filled_bytes_max=INITIAL_BUFFER_BYTES)
        # or the function that takes SASL tokens without a request
        self._take_frame: Callable[[memoryview], None] = self._handle_frame
        self._authenticator = authenticator
        self._authentication: Authentication | None = None
        self._memory = memory
        self._unread = unread
        # Bytes taken from the memory budget: what the buffer has, or may need for the request that is arriving, beyond
        # the first buffer. So the buffer never has more.
        self._taken_bytes = 0
        self._is_spare = False  # the buffer is empty, and the budget may take it away
        self.taken_s = 0.0  # loop time when they were taken
        self.received_s = 0.0  # loop time of its last bytes
        self._waits_for_memory = False
        self._wanted_bytes = 0
        self._transport: asyncio.Transport | None = None
        # requests that are not answered or whose answers are not sent yet, in order of arrival
        self._requests: deque[Request[Any]] = deque()
        self._ready_bytes = 0  # bytes of answers that have not been written yet
        self._alone: Request[Any] | None = None  # no other request is taken before this one is answered
        self._is_handling = False
        self._is_flush_due = False
        self._is_write_blocked = False
        self._is_reading_paused = False
        self._throttle_timer: asyncio.TimerHandle | None = None
        self._throttled_until_s = 0.0
        self.silent_sweeps = 0  # number of the server's last sweeps that saw no byte from this client or to it
        self._unsent_bytes = 0  # unsent bytes at the last sweep
        self.peer_host = ""
        self.principal = principal

    # -- asyncio -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's class has the same methods, but does not inherit from it
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer_host = f"/{peer[0]}"
        if not self._on_open(self):
            self.close()
        elif self._authenticator is not None:
            self._authentication = Authentication(self, self._authenticator, self._dispatch)
            self._dispatch = self._authentication.dispatch

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._requests.clear()
        self._alone = None
        self._take_frame = _ignore
        if self._authentication is not None:
            self._authentication.closed()
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
        self._unread.forget(self)
        self._memory.give_up(self._memory_granted)
        self._memory.in_use(self._reclaimed)
        self._memory.give_back(self._taken_bytes)
        self._taken_bytes = 0
        self._on_close(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.writable()

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.written(nbytes)
        self.silent_sweeps = 0
        if self._taken_bytes:
            self.received_s = asyncio.get_running_loop().time()
            if self._is_spare:
                self._is_spare = False
                self._memory.in_use(self._reclaimed)
        self._handle_frames()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_write_blocked = True
        # called later, because the transport is now in the middle of a write
        asyncio.get_running_loop().call_soon(self._note_unread)

    def resume_writing(self) -> None:
        self._is_write_blocked = False
        self._unread.forget(self)
        self._handle_frames()

    # -- requests ----------------------------------------------------------------------------------------------------

    def _handle_frames(self) -> None:
        if self._is_handling or self.is_closed:
            return
        while self._handle_until_full():
            self._flush()
            if self._is_full():
                break
            # Answers were written meanwhile, so there is room for more requests. Go on with the frames that have
            # already arrived. It may be that no further byte arrives, because the client waits for the answers to them.
        else:
            self._flush()
        if self._taken_bytes or self._reader.buffered_bytes or self._reader.is_filled:
            self._mind_memory()
        if self._is_full() is not self._is_reading_paused:
            self._pause_or_resume()

    def _handle_until_full(self) -> bool:
        """Handles frames. Returns True if frames may be left, but no more requests can be taken now."""
        self._is_handling = True
        reader = self._reader
        try:
            while not self.is_closed:
                if self._is_full():
                    return True
                frame = reader.next_frame()
                if frame is None:
                    return False
                self._take_frame(frame)
                if self._ready_bytes > ANSWERS_BYTES_MAX:
                    self._flush()
        except ProtocolError as error:
            self._logger.warning("connection_closed", listener=self.listener_name, cause=repr(str(error)))
            self.close()
        except Exception:  # an unexpected error in a decoder
            self.request_failed(-1, traceback.format_exc())
        finally:
            self._is_handling = False
        return False

    def _handle_frame(self, frame: memoryview) -> None:
        try:
            header = decode_request_header(frame)
        except UnsupportedVersionError as error:
            self._answer_unsupported(error)
            return
        message: Message = None
        if header.api_key == _PRODUCE:
            message = decode_produce_request(frame, header.body_position, header.api_version)
        elif header.api_key == _FETCH and self.listener is not Listener.CONTROLLER:  # the quorum needs kio's message
            message = decode_fetch_request(frame, header.body_position, header.api_version)
        if message is None:
            # A broker that follows many partitions names them all in its first request.
            is_peer = self.is_peer or (self._judge is not None and claimed_broker(header.client_id) is not None)
            message = decode_request_body(header, frame, elements_max=elements_max(header.api_key, is_peer=is_peer))
        request = Request(self, header, message)
        if self._judge is not None and header.api_key not in FIRST_REQUESTS and not self._judge(self, request):
            self.close()
            return
        self._requests.append(request)
        self._dispatch(request)
        if header.api_key == _FETCH and not self.is_peer and not request.is_done:
            # Kafka handles only one request of a connection at a time, of any kind. Otherwise many waiting fetches of
            # one client could become due at the same time, each with its bytes.
            self._alone = request

    def _answer_unsupported(self, error: UnsupportedVersionError) -> None:
        if error.header.api_key != ApiKey.API_VERSIONS:
            raise error
        request: Request[Any] = Request(self, error.header, None)
        self._requests.append(request)
        request._finish(encode_unsupported_api_versions(error.header.correlation_id, self.listener))

    def _is_full(self) -> bool:
        if self._is_write_blocked or len(self._requests) >= IN_FLIGHT_REQUESTS_MAX:
            return True
        if self._alone is not None:
            if not self._alone.is_done:
                return True
            self._alone = None
        return self._throttle_timer is not None or self._waits_for_memory

    def become_peer(self, memory: RequestMemory, unread: UnreadAnswers) -> None:
        """It is another broker's connection: from now on it has these budgets, and no limits of clients."""
        self.is_peer, self._judge = True, None
        self._memory.move_to(memory, self._taken_bytes)
        self._unread.forget(self)
        self._memory, self._unread = memory, unread

    def _mind_memory(self) -> None:
        """Takes from the memory budget what the buffer may need beyond the first one, or waits for it. An empty buffer
        is kept for the next request, but the budget may take it away."""
        reader = self._reader
        needed_bytes = reader.unfinished_frame_bytes
        if needed_bytes <= INITIAL_BUFFER_BYTES and not (self._taken_bytes or reader.is_filled):
            return  # the first buffer is enough, as it is for nearly all
        if self._waits_for_memory or self.is_closed:
            return
        if self._alone is not None and not self._alone.is_done:  # its frame is in use, and nothing is read meanwhile
            return
        if reader.buffer_bytes > KEPT_BUFFER_BYTES >= needed_bytes:
            self._give_buffer_back()
        if reader.buffered_bytes:
            self._take_for_frame()
            return
        more_bytes = FILLED_BUFFER_BYTES - INITIAL_BUFFER_BYTES
        if reader.is_filled and not self._taken_bytes and self._memory.take_at_once(more_bytes):
            self._taken_bytes, reader.filled_bytes_max = more_bytes, FILLED_BUFFER_BYTES
        if self._taken_bytes and not self._is_spare:
            self._is_spare = True
            self._memory.spare(self._reclaimed)

    def _take_for_frame(self) -> None:
        more_bytes = self._more_bytes()
        if more_bytes > 0 and not self._memory.has_room(more_bytes + self._taken_bytes):
            self._give_buffer_back()  # who waits holds only what has arrived
            more_bytes = self._more_bytes()
        if more_bytes <= 0:
            return
        self._wanted_bytes, self._waits_for_memory = more_bytes, True
        if self._memory.take(more_bytes, self._memory_granted, held_bytes=self._taken_bytes):
            self._memory_granted()

    def _more_bytes(self) -> int:
        return self._reader.reserved_bytes - INITIAL_BUFFER_BYTES - self._taken_bytes

    def _memory_granted(self) -> None:
        self._waits_for_memory = False
        self._taken_bytes += self._wanted_bytes
        self.taken_s = self.received_s = asyncio.get_running_loop().time()
        self._pause_or_resume()

    def _give_buffer_back(self) -> None:
        """Keeps only the memory for what has arrived."""
        self._reader.shrink()
        before, self._taken_bytes = self._taken_bytes, self._reader.buffer_bytes - INITIAL_BUFFER_BYTES
        assert self._taken_bytes <= before, "a buffer is taken before it grows"
        self._memory.give_back(before - self._taken_bytes)

    def _reclaimed(self) -> int:
        """The budget needs the memory of the empty buffer."""
        assert not self._reader.buffered_bytes
        self._reader.shrink()
        freed_bytes, self._taken_bytes, self._is_spare = self._taken_bytes, 0, False
        return freed_bytes

    @property
    def holds_memory(self) -> bool:
        """Whether it holds memory for a request that is arriving."""
        return bool(self._taken_bytes) and not self._is_spare and not self._waits_for_memory

    @property
    def is_waited_for(self) -> bool:
        """Whether others wait for memory that it could give back."""
        return self.holds_memory and self._memory.waiting > 0

    @property
    def unsent_bytes(self) -> int:
        """The bytes of answers that the peer has not read."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def note_silence(self) -> int:
        """Returns how many sweeps in a row found this connection silent. Silent means three things: no request waits
        for an answer, the peer has sent no byte, and it has read no byte. A connection that is closing answers nothing
        any more; only bytes that the peer has not read keep it open."""
        unsent_bytes = self.unsent_bytes
        is_reading, self._unsent_bytes = unsent_bytes < self._unsent_bytes, unsent_bytes
        is_awaited = bool(self._requests) and not self.is_closed
        self.silent_sweeps = 0 if is_awaited or is_reading else self.silent_sweeps + 1
        return self.silent_sweeps

    def throttle(self, wait_ms: int) -> None:
        """Reads nothing from this client for this time (KIP-219). Answers are still sent."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + wait_ms / 1000
        if wait_ms <= 0 or self.is_closed or until_s <= self._throttled_until_s:
            return
        self._throttled_until_s = until_s
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
        self._throttle_timer = loop.call_later(wait_ms / 1000, self._throttle_ended)
        self._pause_or_resume()

    def _throttle_ended(self) -> None:
        self._throttle_timer = None
        self._handle_frames()

    def _pause_or_resume(self) -> None:
        if self._transport is None or self.is_closed or self._transport.is_closing():
            return
        if self._is_full() and not self._is_reading_paused:
            self._is_reading_paused = True
            self._transport.pause_reading()
        elif not self._is_full() and self._is_reading_paused:
            self._is_reading_paused = False
            self._transport.resume_reading()

    # -- answers -----------------------------------------------------------------------------------------------------

    def answer_ready(self, size_bytes: int) -> None:
        """A request calls this when it has got its answer. Answers of one wake-up are written at its end, or earlier if
        they are large."""
        self._ready_bytes += size_bytes
        if self._is_handling or self._is_flush_due or self.is_closed:
            return
        self._is_flush_due = True
        asyncio.get_running_loop().call_soon(self._flush_later)

    def take_frames(self, take: Callable[[memoryview], None] | None) -> None:
        """From now on frames go to `take`, because they are no requests. None means that they are requests again."""
        self._take_frame = self._handle_frame if take is None else take

    def limit_frames(self, size_bytes: int | None) -> None:
        """Limits the size of requests. None sets the usual limit."""
        self._reader.limit_frames(self._request_bytes_max if size_bytes is None else size_bytes)

    def answer_bytes(self, data: bytes) -> None:
        """Sends an answer to a frame that was no request, in the order of the answers."""
        answer: Request[Any] = Request(self, cast("Any", None), None)
        self._requests.append(answer)
        answer.respond_frame([data])

    def await_answer(self, request: Request[Any]) -> None:
        self._alone = request

    def _flush_later(self) -> None:
        self._is_flush_due = False
        self._flush()
        if self._is_reading_paused or self._reader.buffered_bytes:
            self._handle_frames()

    def _flush(self) -> None:
        if self.is_closed or self._transport is None:
            return
        self._ready_bytes = 0
        small: list[Buffer] = []
        out: list[Buffer] = []
        while self._requests and (buffers := self._requests[0].take()) is not None:
            self._requests.popleft()
            for buffer in buffers:
                if len(buffer) < JOIN_BELOW_BYTES:
                    small.append(buffer)
                    continue
                if small:
                    out.append(b"".join(small))
                    small = []
                out.append(buffer)
        if small:
            out.append(b"".join(small))
        if len(out) == 1:
            self._transport.write(out[0])
        elif out:
            self._transport.writelines(out)
        self._note_unread()  # earlier requests are still answered while writing is blocked

    def _note_unread(self) -> None:
        if self._is_write_blocked and not self.is_closed:
            self._unread.note(self)

    def request_failed(self, api_key: int, cause: str) -> None:
        self._logger.handler_failed(api_key, cause)
        self.close()

    def finish(self) -> None:
        """Sends the answers that are ready, and closes."""
        self._flush()
        self.close()

    def close(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
        self.is_closed = True

    def abort(self) -> None:
        """Closes at once, without waiting until the peer has read what was sent to it."""
        if self._transport is not None:
            self._transport.abort()
        self.is_closed = True
