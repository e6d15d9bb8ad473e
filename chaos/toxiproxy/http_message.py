"""HTTP/1.1 messages of the embedded server's API: parses a request and formats an answer. Pure.

Shown by tests/chaos/test_chaos_toxiproxy_server.py.
"""

from __future__ import annotations

import base64
import email.utils
import os
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from chaos.toxiproxy.answer import Answer
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
    if len(lines) > HEADERS_MAX + 3:  # including the request line and the two line breaks at the end of the head
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


def is_chunked(headers: dict[str, str]) -> bool:
    """Whether the body is chunked. Raises ApiError for another transfer coding."""
    coding = headers.get("transfer-encoding")
    if coding is None:
        return False
    if coding.lower() != "chunked":
        raise ApiError(501, f"Transfer-Encoding {coding[:40]!r} is not known")
    if "content-length" in headers:
        raise ApiError(400, "both Content-Length and Transfer-Encoding")
    return True


def chunk_size(line: bytes) -> int:
    """The size in the line before a chunk. 0 is the last chunk."""
    text = line.partition(b";")[0].strip().decode("latin-1")
    if not text or len(text) > 16 or not all(letter in "0123456789abcdefABCDEF" for letter in text):
        raise ApiError(400, f"size of a chunk is no number: {text[:40]!r}")
    return int(text, 16)


def body_size(headers: dict[str, str]) -> int:
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise ApiError(400, f"Content-Length is no size: {text[:40]!r}")
    check_body_size(int(text))
    return int(text)


def check_body_size(size: int) -> None:
    if size > BODY_BYTES_MAX:
        raise ApiError(413, f"body above {BODY_BYTES_MAX} bytes")


def request_id() -> str:
    """20 characters of base32hex, as in the original."""
    return base64.b32hexencode(os.urandom(12)).decode().rstrip("=").lower()


def format_answer(answer: Answer, *, keeps: bool) -> bytes:
    content = answer.content()
    head = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
    if answer.is_routed:
        head.append(f"X-Toxiproxy-Request-Id: {request_id()}")
    head += [f"{name}: {value}" for name, value in answer.headers]
    if content:
        head.append(f"Content-Type: {answer.content_type}")
    if answer.status != HTTPStatus.NO_CONTENT:
        head.append(f"Content-Length: {len(content)}")
    head.append(f"Date: {email.utils.formatdate(usegmt=True)}")
    if not keeps:
        head.append("Connection: close")
    return ("\r\n".join(head) + "\r\n\r\n").encode("latin-1") + content
