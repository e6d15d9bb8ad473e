"""The client of any Toxiproxy server: it uses toxiproxy-python where that is sufficient, and our own calls otherwise.

It adds: several servers in one process, limits on time, errors for every status from 400 up, no proxy settings of the
environment, PATCH, quoted names, one call to populate, a check of attribute names before they are sent (the server
ignores a misspelt one), and a read-back after each change. Safe to share between threads.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

import requests
import toxiproxy
import toxiproxy.api
import toxiproxy.proxy
import toxiproxy.server
from urllib3.exceptions import HTTPError

from chaos.toxiproxy.http_bounds import BoundedAdapter
from chaos.toxiproxy.toxic import AttributeValue, unknown_attribute
from chaos.toxiproxy.toxics import ALL

TIMEOUT_MS = 5_000
# Servers end connections that nobody uses (the embedded one after 60 s). This may happen at the moment of the next
# call, which then gets no answer. So a call after a long rest opens a new connection.
REUSE_S_MAX = 20.0
DOWNSTREAM = "downstream"
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


Parsed = TypeVar("Parsed")
_BY_STATUS: dict[int, type[ToxiproxyError]] = {400: InvalidRequest, 404: NotFound, 409: AlreadyExists}
_current: ContextVar[ToxiproxyClient | None] = ContextVar("toxiproxy_client", default=None)


class _RoutedConsumer(toxiproxy.api.APIConsumer):  # type: ignore[misc]
    """Replaces the library's connection, which belongs to the class. It sends each call through the client that makes
    it."""

    @classmethod
    def get(cls, url: str, params: Any = None, **kwargs: Any) -> Any:  # Any: the library's own signature
        client = _current.get()
        return client.call("GET", url) if client else super().get(url, params=params, **kwargs)

    @classmethod
    def delete(cls, url: str, **kwargs: Any) -> Any:
        client = _current.get()
        return client.call("DELETE", url) if client else super().delete(url, **kwargs)

    @classmethod
    def post(cls, url: str, data: Any = None, json: Any = None, **kwargs: Any) -> Any:
        client = _current.get()
        return client.call("POST", url, json) if client else super().post(url, data=data, json=json, **kwargs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToxicState:
    name: str
    type: str
    stream: str
    toxicity: float
    attributes: dict[str, AttributeValue]
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def is_stall(self) -> bool:
        """Nothing passes, and nothing is lost."""
        return self.type == "bandwidth" and not self.attributes.get("rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyState:
    name: str
    listen: str
    upstream: str
    is_enabled: bool
    toxics: tuple[ToxicState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySpec:
    """A proxy to be made. `kafka_log`, `kafka_addresses` and `upstream_tls` are understood by the embedded server only.

    `kafka_addresses`: in responses, each broker's own host:port becomes the one that it is mapped to. `upstream_tls`:
    the proxy speaks TLS to the upstream and plain text to the client (chaos/toxiproxy/tls.py has the fields).
    """

    name: str
    upstream: str
    listen: str = "127.0.0.1:0"
    is_enabled: bool = True
    kafka_log: bool = False
    kafka_addresses: Mapping[str, str] = field(default_factory=dict)
    upstream_tls: Mapping[str, object] | None = None

    @property
    def is_for_embedded(self) -> bool:
        return self.kafka_log or bool(self.kafka_addresses) or self.upstream_tls is not None

    def to_json(self) -> dict[str, object]:
        fields: dict[str, object] = {
            "name": self.name,
            "listen": self.listen,
            "upstream": self.upstream,
            "enabled": self.is_enabled,
        }
        if self.kafka_log:
            fields["kafka_log"] = True
        if self.kafka_addresses:
            fields["kafka_addresses"] = dict(self.kafka_addresses)
        if self.upstream_tls is not None:
            fields["upstream_tls"] = dict(self.upstream_tls)
        return fields


class ToxiproxyClient:
    """One server. `url` like http://127.0.0.1:8474."""

    def __init__(self, url: str, *, timeout_ms: int = TIMEOUT_MS) -> None:
        self.url = url.rstrip("/")
        self._timeout_ms = timeout_ms
        self._session = requests.Session()
        self._session.trust_env = False  # HTTP_PROXY must not catch calls to 127.0.0.1
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, BoundedAdapter())
        self._lock = threading.Lock()
        self._used_s = time.monotonic()
        self._retired: dict[tuple[str, str], Callable[[], None]] = {}  # proxy, toxic -> what to do when it is gone
        self._library = toxiproxy.Toxiproxy()
        toxiproxy.server.APIConsumer = _RoutedConsumer
        toxiproxy.proxy.APIConsumer = _RoutedConsumer

    def version(self) -> str:
        answer = self.call("GET", "/version")
        try:
            return str(answer.json()["version"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return str(answer.text).strip()[:100]  # before 2.2 the version came as bare text

    def proxies(self) -> dict[str, ProxyState]:
        return self._parsed("/proxies", lambda found: {name: _proxy_state(fields) for name, fields in found.items()})

    def proxy(self, name: str) -> ProxyState:
        return self._parsed(_path(name), _proxy_state)

    def create(self, spec: ProxySpec) -> ProxyState:
        """Raises AlreadyExists."""
        if spec.is_for_embedded:
            self.call("POST", "/proxies", spec.to_json())
        else:
            with self._routed():
                self._library.create(spec.upstream, spec.name, listen=spec.listen, enabled=spec.is_enabled)
        return self._expect_enabled(spec.name, spec.is_enabled)

    def populate(self, specs: Sequence[ProxySpec]) -> dict[str, ProxyState]:
        """One call. A proxy that exists with the same addresses is left alone, also its enabled state."""
        self.call("POST", "/populate", [spec.to_json() for spec in specs])
        found = self.proxies()
        missing = [spec.name for spec in specs if spec.name not in found]
        if missing:
            raise NotApplied(f"{self.url}: populate left out {', '.join(missing)}")
        return {spec.name: found[spec.name] for spec in specs}

    def update(self, name: str, *, upstream: str | None = None, listen: str | None = None) -> ProxyState:
        """Move one end; its connections end."""
        wanted = {key: value for key, value in (("upstream", upstream), ("listen", listen)) if value is not None}
        before = self.proxy(name)
        self._change(_path(name), wanted | {"enabled": before.is_enabled})
        after = self.proxy(name)
        if upstream is not None and after.upstream != upstream:
            raise NotApplied(f"{name}: upstream is {after.upstream}, asked for {upstream}")
        return after

    def enable(self, name: str) -> ProxyState:
        with self._routed():
            self._library_proxy(name).enable()
        return self._expect_enabled(name, True)

    def disable(self, name: str) -> ProxyState:
        """Closes its connections; later ones are refused."""
        with self._routed():
            self._library_proxy(name).disable()
        return self._expect_enabled(name, False)

    def delete(self, name: str) -> None:
        with self._routed():
            self._library_proxy(name).destroy()

    def add_toxic(
        self,
        proxy: str,
        type_name: str,
        attributes: Mapping[str, AttributeValue],
        *,
        stream: str = DOWNSTREAM,
        name: str | None = None,
        toxicity: float = 1.0,
    ) -> ToxicState:
        _check_attributes(type_name, attributes)
        toxic_name = name or f"{type_name}_{stream}"
        with self._routed():
            self._library_proxy(proxy).add_toxic(
                type=type_name, stream=stream, name=toxic_name, toxicity=toxicity, attributes=dict(attributes)
            )
        return self._expect_attributes(proxy, toxic_name, attributes)

    def update_toxic(
        self, proxy: str, name: str, attributes: Mapping[str, AttributeValue], *, toxicity: float | None = None
    ) -> ToxicState:
        """Without the gap that removing and adding would leave."""
        current = self.toxic(proxy, name)
        _check_attributes(current.type, attributes)
        # Toxiproxy up to 2.12 resets attributes that an update leaves out only for some types: send all.
        fields: dict[str, object] = {"attributes": current.attributes | dict(attributes)}
        self._change(
            f"{_path(proxy)}/toxics/{quote(name, safe='')}", fields | {"toxicity": toxicity or current.toxicity}
        )
        return self._expect_attributes(proxy, name, attributes)

    def remove_toxic(self, proxy: str, name: str) -> None:
        with self._routed():
            self._library_proxy(proxy).destroy_toxic(quote(name, safe=""))

    def retire_toxic(self, proxy: str, name: str, *, then: Callable[[], None] = lambda: None) -> None:
        """Remove a toxic now, or together with the stall behind it that hides it. `then` is called when it is gone.

        Toxiproxy 2.12.0 panics at the next toxic of a proxy in this case: toxics were removed in the order in which
        they came, while a stall behind them held data of a connection whose sender was gone (docs/guide/found.md).
        Removing from the end is safe.
        """
        chain: tuple[ToxicState, ...] = ()
        with contextlib.suppress(NotFound):
            chain = self.proxy(proxy).toxics
        own = next((each for each in chain if each.name == name), None)
        if own is None:
            then()  # it was never made
            return
        self._retired[(proxy, name)] = then
        for each in reversed([each for each in chain if each.stream == own.stream]):
            if (proxy, each.name) in self._retired:
                try:
                    self.remove_toxic(proxy, each.name)
                except NotFound:
                    pass
                except ToxiproxyError:
                    self._retired.pop((proxy, name), None)  # the caller tries again
                    raise
                self._retired.pop((proxy, each.name))()
            elif each.is_stall:
                return

    def toxic(self, proxy: str, name: str) -> ToxicState:
        return self._parsed(f"{_path(proxy)}/toxics/{quote(name, safe='')}", _toxic_state)

    def toxics(self, proxy: str) -> dict[str, ToxicState]:
        return {toxic.name: toxic for toxic in self.proxy(proxy).toxics}

    def reset(self) -> None:
        """Enable all proxies, remove all toxics."""
        with self._routed():
            self._library.reset()

    @contextlib.contextmanager
    def down(self, name: str) -> Iterator[None]:
        """Disabled inside, afterwards in its old state."""
        was_enabled = self.proxy(name).is_enabled
        self.disable(name)
        try:
            yield
        finally:
            if was_enabled:
                self.enable(name)

    def close(self) -> None:
        self._session.close()

    def call(self, method: str, path: str, body: object = None) -> requests.Response:
        """One HTTP call. Raises the ToxiproxyError that fits the status; redirections are not followed."""
        url = self.url + path
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

    def _parsed(self, path: str, parse: Callable[[Any], Parsed]) -> Parsed:  # Any: JSON
        answer = self.call("GET", path)
        try:
            return parse(answer.json())
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            kind = type(error).__name__
            raise ToxiproxyError(f"GET {self.url}{path}: the answer is not Toxiproxy's ({kind}: {error})") from error

    def _change(self, path: str, fields: Mapping[str, object]) -> None:
        """PATCH, and for servers before 2.6 POST."""
        try:
            self.call("PATCH", path, fields)
        except ToxiproxyError as error:
            if error.status != 405:
                raise
            self.call("POST", path, fields)

    @contextlib.contextmanager
    def _routed(self) -> Iterator[None]:
        token = _current.set(self)
        try:
            yield
        except toxiproxy.exceptions.ProxyExists as error:
            raise AlreadyExists(str(error), status=409) from error
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            kind = type(error).__name__
            raise ToxiproxyError(f"{self.url}: an answer is not Toxiproxy's ({kind}: {error})") from error
        finally:
            _current.reset(token)

    def _library_proxy(self, name: str) -> Any:  # Any: the library has no types
        """The library puts the name into paths unquoted, so it gets it quoted."""
        return toxiproxy.Proxy(name=quote(name, safe=""), listen="", upstream="", enabled=True)

    def _expect_enabled(self, name: str, is_enabled: bool) -> ProxyState:
        state = self.proxy(name)
        if state.is_enabled != is_enabled:
            raise NotApplied(f"{self.url}: proxy {name} should be {'enabled' if is_enabled else 'disabled'} and is not")
        return state

    def _expect_attributes(self, proxy: str, name: str, attributes: Mapping[str, AttributeValue]) -> ToxicState:
        state = self.toxic(proxy, name)
        wrong = {
            key: state.attributes.get(key) for key, value in attributes.items() if state.attributes.get(key) != value
        }
        if wrong:
            raise NotApplied(f"{self.url}: toxic {name} of {proxy} has {wrong}, asked for {dict(attributes)}")
        return state


def _path(proxy: str) -> str:
    return f"/proxies/{quote(proxy, safe='')}"


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


def _check_attributes(type_name: str, attributes: Mapping[str, AttributeValue]) -> None:
    spec = ALL.get(type_name)
    if spec is None:
        return  # a toxic that only this server knows; the server decides
    known = [attribute.name for attribute in spec.attributes]
    for name in attributes:
        if name not in known:
            raise InvalidRequest(unknown_attribute(type_name, name, known), status=400)


def _toxic_state(fields: Mapping[str, Any]) -> ToxicState:
    return ToxicState(
        name=fields["name"],
        type=fields["type"],
        stream=fields["stream"],
        toxicity=fields["toxicity"],
        attributes=dict(fields["attributes"] or {}),
        counters=dict(fields.get("counters") or {}),
    )


def _proxy_state(fields: Mapping[str, Any]) -> ProxyState:
    return ProxyState(
        name=fields["name"],
        listen=fields["listen"],
        upstream=fields["upstream"],
        is_enabled=fields["enabled"],
        toxics=tuple(_toxic_state(toxic) for toxic in fields.get("toxics") or ()),
    )
