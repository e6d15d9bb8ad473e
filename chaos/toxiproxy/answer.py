"""Answers of the API, in the form in which Go's `net/http` and the original's router send them. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from chaos.toxiproxy.errors import ApiError

_PLAIN_IN_PATHS: Final = "$&+,/:;=@-_.~"
_TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    body: object = None  # sent as JSON; None: `text` is sent
    text: str = ""
    content_type: str = "application/json"  # not sent if there is no body
    ending: str = ""  # text after the body
    headers: tuple[tuple[str, str], ...] = ()
    is_routed: bool = True  # the original gives only such requests an id

    def content(self) -> bytes:
        return ((self.text if self.body is None else json.dumps(self.body)) + self.ending).encode()


def error_answer(error: ApiError) -> Answer:
    """JSON with the content type of text, because the original sends it through Go's `http.Error`."""
    body = json.dumps({"error": error.message, "status": error.status})
    return Answer(status=error.status, text=body, ending="\n", content_type=_TEXT, headers=_NO_SNIFF)


def text_answer(status: int, text: str, *, is_routed: bool) -> Answer:
    return Answer(status=status, text=text, ending="\n", content_type=_TEXT, headers=_NO_SNIFF, is_routed=is_routed)


def moved_to(path: str, query: str) -> Answer:
    """A redirection. `path` is decoded and may contain anything, even a line break. So it is encoded as Go encodes a
    path."""
    headers = (("Location", quote(path, safe=_PLAIN_IN_PATHS) + (f"?{query}" if query else "")),)
    return Answer(status=HTTPStatus.MOVED_PERMANENTLY, headers=headers, is_routed=False)


_NO_SNIFF: Final = (("X-Content-Type-Options", "nosniff"),)
PAGE_NOT_FOUND: Final = text_answer(HTTPStatus.NOT_FOUND, "404 page not found", is_routed=False)
METHOD_NOT_ALLOWED: Final = Answer(status=HTTPStatus.METHOD_NOT_ALLOWED, is_routed=False)
BROWSER_REFUSED: Final = text_answer(HTTPStatus.FORBIDDEN, "User agent not allowed", is_routed=True)
