"""One HTTP call to a Toxiproxy server, and how it can fail.

In addition to `requests` it has limits on time and size, and errors for every status from 300 on. It ignores the proxy
settings of the environment. Threads may share it. Shown by tests/chaos/test_chaos_toxiproxy_hostile.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from http.client import RemoteDisconnected
from typing import Any, TypeVar

import requests
from urllib3.exceptions import HTTPError, ProtocolError

from chaos.toxiproxy.http_bounds import BoundedAdapter

Parsed = TypeVar("Parsed")
TIMEOUT_MS = 5_000
# Servers close idle connections (the embedded one after 60 s). This may happen at the moment of the next call, which
# then gets no answer. So a call after a long pause opens a new connection.
REUSE_S_MAX = 20.0
ANSWER_BYTES_MAX = 16 << 20  # enough for 20,000 proxies with toxics; an unknown process at the URL may send without end


class ToxiproxyError(Exception):
    """A call that failed. `status` is the HTTP status, 0 if there was no answer."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class NotFound(ToxiproxyError):
    """No such proxy or toxic (404)."""


class AlreadyExists(ToxiproxyError):
    """The proxy or toxic exists already (409)."""


class InvalidRequest(ToxiproxyError):
    """The server (400), or the check before sending, does not accept the input."""


class Unreachable(ToxiproxyError):
    """No answer. The call may or may not have taken effect."""


class NotApplied(ToxiproxyError):
    """The server accepted the change, but shows another state when it is read back."""


_BY_STATUS: dict[int, type[ToxiproxyError]] = {400: InvalidRequest, 404: NotFound, 409: AlreadyExists}


class Calls:
    """Calls to one server. `url` is like http://127.0.0.1:8474, without a slash at the end."""

    def __init__(self, url: str, *, timeout_ms: int) -> None:
        self._url = url
        self._timeout_ms = timeout_ms
        self._session = requests.Session()
        self._session.trust_env = False  # HTTP_PROXY must not be used for calls to 127.0.0.1
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, BoundedAdapter())
        self._lock = threading.Lock()
        self._used_s = time.monotonic()

    def call(self, method: str, path: str, body: object = None) -> requests.Response:
        """Make one HTTP call. Raises the ToxiproxyError for the status. Redirections are not followed.

        A GET whose connection was closed without a byte of an answer is sent once more: it changes nothing, and a
        server may close a connection that it has kept at any moment (RFC 9110, section 9.2.2)."""
        try:
            return self._once(method, path, body)
        except Unreachable as error:
            if method != "GET" or not _is_closed_unanswered(error.__cause__):
                raise
        return self._once(method, path, body)

    def _once(self, method: str, path: str, body: object) -> requests.Response:
        url = self._url + path
        timeout_s = self._timeout_ms / 1000
        try:
            with self._lock:
                if time.monotonic() - self._used_s > REUSE_S_MAX:
                    self._session.close()  # closes its connections; it opens new ones when needed
                self._used_s = time.monotonic()
                deadline_s = self._used_s + 2 * timeout_s  # one timeout to connect, one to read
                answer = self._session.request(
                    method, url, json=body, timeout=timeout_s, stream=True, allow_redirects=False,
                    headers={"Accept-Encoding": "identity"},
                )  # fmt: skip
                # `requests` would read as long as bytes arrive. So the body is read here and stored where `requests`
                # stores it.
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
        """Send PATCH, or POST to servers before 2.6."""
        try:
            self.call("PATCH", path, fields)
        except ToxiproxyError as error:
            if error.status != 405:
                raise
            self.call("POST", path, fields)

    def close(self) -> None:
        self._session.close()


def _is_closed_unanswered(error: BaseException | None) -> bool:
    """`requests` has it as a ConnectionError about urllib3's ProtocolError about this one."""
    causes = [error]
    while isinstance(causes[-1], (requests.ConnectionError, ProtocolError)):
        causes.append(next((each for each in causes[-1].args if isinstance(each, Exception)), None))
    return isinstance(causes[-1], RemoteDisconnected)


def _body_of(answer: requests.Response, deadline_s: float) -> bytes:
    """Read the body to its end. Raises ValueError if it is too long or compressed (we asked for no compression), and
    TimeoutError if it is too slow."""
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
