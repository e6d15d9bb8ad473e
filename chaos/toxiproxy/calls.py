"""One HTTP call to a Toxiproxy server, and how it can fail.

It adds to `requests`: limits on time and size, errors for every status from 300 up, and no proxy settings of the
environment. Safe to share between threads. Shown by tests/chaos/test_chaos_toxiproxy_hostile.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import requests
from urllib3.exceptions import HTTPError

from chaos.toxiproxy.http_bounds import BoundedAdapter

Parsed = TypeVar("Parsed")
TIMEOUT_MS = 5_000
# Servers end connections that nobody uses (the embedded one after 60 s). This may happen at the moment of the next
# call, which then gets no answer. So a call after a long rest opens a new connection.
REUSE_S_MAX = 20.0
ANSWER_BYTES_MAX = 16 << 20  # 20,000 proxies with toxics; a process that listens at the URL may send without end


class ToxiproxyError(Exception):
    """A call that failed. `status` is the HTTP status, 0 if there was no answer."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class NotFound(ToxiproxyError):
    """No such proxy or toxic (404)."""


class AlreadyExists(ToxiproxyError):
    """The proxy or toxic is there already (409)."""


class InvalidRequest(ToxiproxyError):
    """The server, or the check before sending, does not accept the input (400)."""


class Unreachable(ToxiproxyError):
    """No answer. The call may or may not have taken effect."""


class NotApplied(ToxiproxyError):
    """The server said yes, but reading back shows another state."""


_BY_STATUS: dict[int, type[ToxiproxyError]] = {400: InvalidRequest, 404: NotFound, 409: AlreadyExists}


class Calls:
    """To one server. `url` like http://127.0.0.1:8474, without a slash at the end."""

    def __init__(self, url: str, *, timeout_ms: int) -> None:
        self._url = url
        self._timeout_ms = timeout_ms
        self._session = requests.Session()
        self._session.trust_env = False  # HTTP_PROXY must not catch calls to 127.0.0.1
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, BoundedAdapter())
        self._lock = threading.Lock()
        self._used_s = time.monotonic()

    def call(self, method: str, path: str, body: object = None) -> requests.Response:
        """One HTTP call. Raises the ToxiproxyError that fits the status; redirections are not followed."""
        url = self._url + path
        timeout_s = self._timeout_ms / 1000
        try:
            with self._lock:
                if time.monotonic() - self._used_s > REUSE_S_MAX:
                    self._session.close()  # its connections; it opens others when needed
                self._used_s = time.monotonic()
                deadline_s = self._used_s + 2 * timeout_s  # to connect and to read
                answer = self._session.request(
                    method, url, json=body, timeout=timeout_s, stream=True, allow_redirects=False,
                    headers={"Accept-Encoding": "identity"},
                )  # fmt: skip
                # `requests` would read as long as bytes come. So the body is read here and put where `requests` keeps
                # it.
                answer._content = _body_of(answer, deadline_s)
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            raise Unreachable(f"{method} {url}: {error}") from error
        if answer.status_code >= 300:
            kind = _BY_STATUS.get(answer.status_code, ToxiproxyError)
            raise kind(f"{method} {url}: {answer.status_code} {_reason(answer)}", status=answer.status_code)
        return answer

    def parsed(self, path: str, parse: Callable[[Any], Parsed]) -> Parsed:  # Any: JSON
        answer = self.call("GET", path)
        try:
            return parse(answer.json())
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            kind = type(error).__name__
            raise ToxiproxyError(f"GET {self._url}{path}: the answer is not Toxiproxy's ({kind}: {error})") from error

    def change(self, path: str, fields: Mapping[str, object]) -> None:
        """PATCH, and for servers before 2.6 POST."""
        try:
            self.call("PATCH", path, fields)
        except ToxiproxyError as error:
            if error.status != 405:
                raise
            self.call("POST", path, fields)

    def close(self) -> None:
        self._session.close()


def _body_of(answer: requests.Response, deadline_s: float) -> bytes:
    """Read to its end. ValueError if it is too long, too slow, or compressed although nobody asked for that."""
    parts: list[bytes] = []
    left = ANSWER_BYTES_MAX
    try:
        if answer.headers.get("Content-Encoding", "identity") != "identity":
            raise ValueError(f"an answer in {answer.headers['Content-Encoding']!r}")
        while part := answer.raw.read1(65_536, decode_content=False):
            parts.append(part)
            left -= len(part)
            if left < 0:
                raise ValueError(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
            if time.monotonic() > deadline_s:
                raise TimeoutError("the answer did not end in time")
    except BaseException:
        answer.close()
        raise
    return b"".join(parts)


def _reason(answer: requests.Response) -> str:
    try:
        return str(answer.json()["error"])[:1000]
    except (ValueError, KeyError, TypeError, RecursionError):
        return answer.text.strip()[:200] or answer.reason
