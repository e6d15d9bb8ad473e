"""HTTP/1.1 messages of the embedded server's API: one request from its bytes, one answer to bytes. Pure.

Left out: chunked request bodies (411). Shown by tests/chaos/test_chaos_toxiproxy_server.py.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from chaos.toxiproxy.api import Answer
from chaos.toxiproxy.errors import ApiError

BODY_BYTES_MAX: Final = 4 << 20
HEADERS_MAX: Final = 100  # clients of the API send about ten
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


def parse_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    lines = head.decode("latin-1").split("\r\n")
    if len(lines) > HEADERS_MAX + 3:  # with the request line and the two ends of the head
        raise ApiError(431, f"more than {HEADERS_MAX} headers")
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


def body_size(headers: dict[str, str]) -> int:
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
