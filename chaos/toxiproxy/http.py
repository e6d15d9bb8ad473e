"""A small HTTP/1.1 server for the embedded server's API: keep-alive, JSON, bounded headers and bodies.

Left out: chunked request bodies (411), pipelining beyond one request at a time, TLS. Browsers are turned away like
Toxiproxy does, so that no web page can drive the API.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from http import HTTPStatus

from chaos.toxiproxy.api import Answer, Api
from chaos.toxiproxy.errors import ApiError

HEAD_BYTES_MAX = 32 << 10
BODY_BYTES_MAX = 4 << 20
IDLE_TIMEOUT_MS = 60_000
READ_TIMEOUT_MS = 15_000  # for the rest of a request once it has begun
LINGER_MS = 1_000
CONNECTIONS_MAX = 512
_METHODS = frozenset({"GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def wants_close(self) -> bool:
        return self.headers.get("connection", "").lower() == "close"


class HttpServer:
    def __init__(self, api: Api) -> None:
        self._api = api
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    async def start(self, host: str, port: int) -> int:
        """Returns the port; port 0 takes a free one."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=HEAD_BYTES_MAX)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def stop(self) -> None:
        if self._server:
            self._server.close()
        for writer in list(self._connections):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        self._connections.add(writer)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass  # the caller went away
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; False ends the connection."""
        try:
            request = await read_request(reader)
            if request is None:
                return False
            answer, keeps = await self._answer(request), not request.wants_close
        except ApiError as error:  # the request could not be read, so where the next one begins is unknown
            answer, keeps = error_answer(error), False
        writer.write(format_answer(answer, keeps=keeps))
        await writer.drain()
        if not keeps:
            await _linger(reader, writer)
        return keeps

    async def _answer(self, request: Request) -> Answer:
        if request.headers.get("user-agent", "").startswith("Mozilla/"):
            return error_answer(ApiError(403, "User agent not allowed"))
        try:
            return await self._api.handle(request.method, request.path, request.body)
        except ApiError as error:
            return error_answer(error)


async def _linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Closing over unread input would be a reset, which may take the answer with it."""
    writer.write_eof()
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(LINGER_MS / 1000):
            left = BODY_BYTES_MAX
            while left > 0 and (data := await reader.read(65536)):
                left -= len(data)


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """None at the end of the connection. Raises ApiError for what is no request."""
    first = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(IDLE_TIMEOUT_MS / 1000):
            first = await reader.read(1)
    if not first:
        return None
    try:
        async with asyncio.timeout(READ_TIMEOUT_MS / 1000):
            method, path, headers = _parse_head(first + await reader.readuntil(b"\r\n\r\n"))
            body = await reader.readexactly(_body_size(headers))
    except asyncio.LimitOverrunError as error:
        raise ApiError(431, f"headers above {HEAD_BYTES_MAX} bytes") from error
    except TimeoutError as error:
        raise ApiError(408, f"request not complete after {READ_TIMEOUT_MS} ms") from error
    return Request(method=method, path=path, headers=headers, body=body)


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if (
        len(words) != 3
        or not words[2].startswith("HTTP/1.")
        or words[0] not in _METHODS
        or not words[1].startswith("/")
    ):
        raise ApiError(400, "not an HTTP/1.1 request")
    headers: dict[str, str] = {}
    for line in filter(None, lines[1:]):
        name, separator, value = line.partition(":")
        key = name.lower()
        if not separator or not name or name != name.strip():
            raise ApiError(400, "malformed header")
        if key == "content-length" and headers.get(key, value.strip()) != value.strip():
            raise ApiError(400, "two different values of Content-Length")
        headers[key] = value.strip()
    if words[2] == "HTTP/1.0":
        headers.setdefault("connection", "close")
    return words[0], words[1], headers


def _body_size(headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise ApiError(411, "send a Content-Length: chunked bodies are not read")
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise ApiError(400, f"Content-Length is no size: {text[:40]!r}")
    if int(text) > BODY_BYTES_MAX:
        raise ApiError(413, f"body above {BODY_BYTES_MAX} bytes")
    return int(text)


def error_answer(error: ApiError) -> Answer:
    return Answer(status=error.status, body={"error": error.message, "status": error.status})


def format_answer(answer: Answer, *, keeps: bool) -> bytes:
    body = b"" if answer.body is None else json.dumps(answer.body).encode() + b"\n"
    head = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    if answer.status != HTTPStatus.NO_CONTENT:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    head.append(f"Connection: {'keep-alive' if keeps else 'close'}")
    return ("\r\n".join(head) + "\r\n\r\n").encode("latin-1") + body
