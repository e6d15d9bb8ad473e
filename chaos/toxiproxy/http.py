"""A small HTTP/1.1 server for the embedded server's API. It has keep-alive and JSON, and always accepts a new caller.

A caller that wants to heal a fault must be served, however many connections others hold. So the number of connections,
and the bytes held for them, are limited. If a limit is reached, the server ends one connection. It chooses like this:

1. It considers only connections that wait. A request that the API works on is never ended.
2. It takes the host that has most of them.
3. There it first takes callers that were never answered and had enough time. If there are none, it takes newcomers or
   callers that were answered, whichever are more.
4. Of these it takes the oldest.

A request that has begun must be complete soon.

Left out: pipelining beyond one request at a time, and TLS. Browsers are refused as by Toxiproxy, so that no web page
can use the API. Shown by tests/chaos/test_chaos_toxiproxy_http.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from chaos.toxiproxy.answer import BROWSER_REFUSED, Answer, error_answer
from chaos.toxiproxy.api import Api
from chaos.toxiproxy.errors import ApiError
from chaos.toxiproxy.http_message import (
    BODY_BYTES_MAX,
    Request,
    body_size,
    check_body_size,
    chunk_size,
    format_answer,
    is_chunked,
    parse_head,
)

HEAD_BYTES_MAX: Final = 32 << 10
TRAILERS_MAX: Final = 20
IDLE_TIMEOUT_MS: Final = 60_000
HEAD_TIMEOUT_MS: Final = 5_000  # from the first byte of the request; callers send the head in one piece
BODY_TIMEOUT_MS: Final = 15_000
WRITE_TIMEOUT_MS: Final = 10_000  # until the caller has read enough of the answer
LINGER_MS: Final = 1_000
NEWCOMER_MS: Final = 250  # the time that a caller needs to send its request, while many others connect
CONNECTIONS_MAX: Final = 256  # a harness has two or three
HELD_BYTES_MAX: Final = 64 << 20  # bodies and answers of all callers together
BACKLOG: Final = 1_024  # many callers that connect at once must not keep others out of the queue
_DESCRIPTOR_SHARE: Final = 8  # 1/8 of the process' descriptors; the others are for the proxies


@dataclass(eq=False, slots=True, kw_only=True)
class Caller:
    """One connection, with the facts that decide which connection is ended."""

    host: str
    since_ms: float  # when it arrived, or got its last answer
    writer: asyncio.StreamWriter | None = None
    is_worked_on: bool = False  # the API works on its request
    was_answered: bool = False  # and keeps its connection
    held_bytes: int = 0


def who_must_go(callers: Iterable[Caller], now_ms: float) -> Caller | None:
    """The connection to end. None if the API works on all of them."""
    waiting = [caller for caller in callers if not caller.is_worked_on]
    if not waiting:
        return None
    of_host = Counter(caller.host for caller in waiting)
    host = max(of_host, key=lambda name: of_host[name])
    answered: list[Caller] = []
    newcomers: list[Caller] = []
    others: list[Caller] = []
    for caller in waiting:
        if caller.host == host:
            is_newcomer = now_ms - caller.since_ms < NEWCOMER_MS
            (answered if caller.was_answered else newcomers if is_newcomer else others).append(caller)
    # Many callers that connect at once are newcomers. They must not push out a caller that keeps its connection for
    # later. Many callers that were answered and stay connected must not leave only one place for all newcomers.
    crowd = others or (answered if len(answered) > len(newcomers) else newcomers)
    return min(crowd, key=lambda caller: caller.since_ms)


def _now_ms() -> float:
    return time.monotonic() * 1000


def connections_max() -> int:
    """An eighth of the descriptors that this process may have, but at least 16 and at most CONNECTIONS_MAX."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return CONNECTIONS_MAX if limit < 0 else max(16, min(CONNECTIONS_MAX, limit // _DESCRIPTOR_SHARE))


class HttpServer:
    def __init__(self, api: Api) -> None:
        self._api = api
        self._server: asyncio.Server | None = None
        self._callers: set[Caller] = set()
        self._connections_max = connections_max()

    async def start(self, host: str, port: int) -> int:
        """Listen. Returns the port. Port 0 takes a free one."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=HEAD_BYTES_MAX, backlog=BACKLOG)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def stop(self) -> None:
        if self._server:
            self._server.close()
        for caller in list(self._callers):
            self._end(caller)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = writer.get_extra_info("peername")
        caller = Caller(host=str(name[0]) if name else "", since_ms=_now_ms(), writer=writer)
        while len(self._callers) >= self._connections_max:
            one = who_must_go(self._callers, _now_ms())
            if one is None:
                writer.transport.abort()
                return
            self._end(one)
        self._callers.add(caller)
        try:
            while await self._serve_one(caller, reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):  # TimeoutError is an OSError
            pass  # the caller has left, was ended, or does not read its answer
        finally:
            self._callers.discard(caller)
            if caller.held_bytes:
                writer.transport.abort()  # an answer that is not read is not kept
            writer.close()

    def _end(self, caller: Caller) -> None:
        self._callers.discard(caller)
        if caller.writer is not None:
            caller.writer.transport.abort()

    def _hold(self, caller: Caller, size: int) -> None:
        """Hold `size` bytes for this caller. Others are ended until there is room. Raises OSError if `caller` itself
        must be ended."""
        caller.held_bytes = 0
        while sum(each.held_bytes for each in self._callers) + size > HELD_BYTES_MAX:
            one = who_must_go([each for each in self._callers if each.held_bytes], _now_ms())
            if one is None:
                raise ConnectionAbortedError("no room for the bytes of this caller")
            self._end(one)
        if caller not in self._callers:
            raise ConnectionAbortedError("this caller had to go")
        caller.held_bytes = size

    async def _serve_one(self, caller: Caller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request. False ends the connection."""
        try:
            request = await self._read_request(caller, reader, writer)
            if request is None:
                return False
            caller.is_worked_on = True
            answer, keeps = await self._answer(request), not request.wants_close
        except ApiError as error:  # the request could not be read, so it is unknown where the next one begins
            answer, keeps = error_answer(error), False
        finally:
            caller.is_worked_on = False
        data = format_answer(answer, keeps=keeps)
        self._hold(caller, len(data))
        writer.write(data)
        async with asyncio.timeout(WRITE_TIMEOUT_MS / 1000):
            await writer.drain()
        # Who was refused, or is leaving, is none of those that keep their connection: it must not push one of them out.
        caller.held_bytes, caller.was_answered, caller.since_ms = 0, keeps, _now_ms()
        if not keeps:
            await _linger(reader, writer)
        return keeps

    async def _read_request(
        self, caller: Caller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Request | None:
        """Read a request. None at the end of the connection. Raises ApiError for bytes that are not a request."""
        first = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(IDLE_TIMEOUT_MS / 1000):
                first = await reader.read(1)
        if not first:
            return None
        try:
            async with asyncio.timeout(HEAD_TIMEOUT_MS / 1000):
                method, path, headers = parse_head(first + await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError as error:
            raise ApiError(431, f"headers above {HEAD_BYTES_MAX} bytes") from error
        except TimeoutError as error:
            raise ApiError(408, f"head of the request not complete after {HEAD_TIMEOUT_MS} ms") from error
        try:
            async with asyncio.timeout(BODY_TIMEOUT_MS / 1000):
                if headers.get("expect", "").lower() == "100-continue":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await self._read_body(caller, reader, headers)
        except TimeoutError as error:
            raise ApiError(408, f"body of the request not complete after {BODY_TIMEOUT_MS} ms") from error
        return Request(method=method, path=path, headers=headers, body=body)

    async def _read_body(self, caller: Caller, reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
        if not is_chunked(headers):
            size = body_size(headers)
            self._hold(caller, size)
            return await reader.readexactly(size)
        body = bytearray()
        while size := chunk_size(await _line(reader)):
            check_body_size(len(body) + size)
            self._hold(caller, len(body) + size)
            body += await reader.readexactly(size)
            if await _line(reader):
                raise ApiError(400, "a chunk is longer than its size")
        for _ in range(TRAILERS_MAX):
            if not await _line(reader):
                return bytes(body)
        raise ApiError(431, f"more than {TRAILERS_MAX} trailers")

    async def _answer(self, request: Request) -> Answer:
        if request.headers.get("user-agent", "").startswith("Mozilla/"):
            return BROWSER_REFUSED
        return await self._api.handle(request.method, request.path, request.body)


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Read a line. Returns it without its line break."""
    try:
        return (await reader.readuntil(b"\r\n"))[:-2]
    except asyncio.LimitOverrunError as error:
        raise ApiError(431, f"a line above {HEAD_BYTES_MAX} bytes") from error


async def _linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read the remaining input before the connection closes. Otherwise the close would be a reset, which could destroy
    the answer."""
    writer.write_eof()
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(LINGER_MS / 1000):
            left = BODY_BYTES_MAX
            while left > 0 and (data := await reader.read(65536)):
                left -= len(data)
