"""A client for any Toxiproxy server. It uses toxiproxy-python where that is sufficient, and our own calls otherwise.

It adds:

- several servers in one process, and the limits and errors of `Calls`
- PATCH, quoted names, and populate in one call
- a check of attribute names before they are sent, because the server ignores a misspelt one
- a read-back after each change

Threads may share it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any
from urllib.parse import quote

import toxiproxy
import toxiproxy.api
import toxiproxy.proxy
import toxiproxy.server

from chaos.toxiproxy.calls import TIMEOUT_MS, AlreadyExists, Calls, InvalidRequest, NotApplied, NotFound, ToxiproxyError
from chaos.toxiproxy.states import ProxySpec, ProxyState, ToxicState, proxy_state, toxic_state
from chaos.toxiproxy.toxic import AttributeValue, unknown_attribute
from chaos.toxiproxy.toxics import ALL

DOWNSTREAM = "downstream"

_current: ContextVar[Calls | None] = ContextVar("toxiproxy_calls", default=None)


class _RoutedConsumer(toxiproxy.api.APIConsumer):  # type: ignore[misc]
    """Replaces the library's connection, which all objects of a class share. It sends each call through the client that
    makes it."""

    @classmethod
    def get(cls, url: str, params: Any = None, **kwargs: Any) -> Any:  # Any: the library's own signature
        calls = _current.get()
        return calls.call("GET", url) if calls else super().get(url, params=params, **kwargs)

    @classmethod
    def delete(cls, url: str, **kwargs: Any) -> Any:
        calls = _current.get()
        return calls.call("DELETE", url) if calls else super().delete(url, **kwargs)

    @classmethod
    def post(cls, url: str, data: Any = None, json: Any = None, **kwargs: Any) -> Any:
        calls = _current.get()
        return calls.call("POST", url, json) if calls else super().post(url, data=data, json=json, **kwargs)


class ToxiproxyClient:
    """A client for one server. `url` is like http://127.0.0.1:8474."""

    def __init__(self, url: str, *, timeout_ms: int = TIMEOUT_MS) -> None:
        self.url = url.rstrip("/")
        self._calls = Calls(self.url, timeout_ms=timeout_ms)
        self._retired: dict[tuple[str, str], Callable[[], None]] = {}  # (proxy, toxic) -> what to do when it is removed
        self._library = toxiproxy.Toxiproxy()
        toxiproxy.server.APIConsumer = _RoutedConsumer
        toxiproxy.proxy.APIConsumer = _RoutedConsumer

    def version(self) -> str:
        answer = self._calls.call("GET", "/version")
        try:
            return str(answer.json()["version"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return str(answer.text).strip()[:100]  # before 2.2 the version came as bare text

    def proxies(self) -> dict[str, ProxyState]:
        return self._calls.parsed(
            "/proxies", lambda found: {name: proxy_state(fields) for name, fields in found.items()}
        )

    def proxy(self, name: str) -> ProxyState:
        return self._calls.parsed(_path(name), proxy_state)

    def create(self, spec: ProxySpec) -> ProxyState:
        """Create a proxy. Raises AlreadyExists."""
        if spec.is_for_embedded:
            self._calls.call("POST", "/proxies", spec.to_json())
        else:
            with self._routed():
                self._library.create(spec.upstream, spec.name, listen=spec.listen, enabled=spec.is_enabled)
        return self._expect_enabled(spec.name, spec.is_enabled)

    def populate(self, specs: Sequence[ProxySpec]) -> dict[str, ProxyState]:
        """Create proxies in one call. A proxy that exists with the same addresses does not change, nor does its enabled
        state."""
        self._calls.call("POST", "/populate", [spec.to_json() for spec in specs])
        found = self.proxies()
        missing = [spec.name for spec in specs if spec.name not in found]
        if missing:
            raise NotApplied(f"{self.url}: populate left out {', '.join(missing)}")
        return {spec.name: found[spec.name] for spec in specs}

    def update(self, name: str, *, upstream: str | None = None, listen: str | None = None) -> ProxyState:
        """Change one of the addresses. The connections of the proxy end."""
        wanted = {key: value for key, value in (("upstream", upstream), ("listen", listen)) if value is not None}
        before = self.proxy(name)
        self._calls.change(_path(name), wanted | {"enabled": before.is_enabled})
        after = self.proxy(name)
        if upstream is not None and after.upstream != upstream:
            raise NotApplied(f"{name}: upstream is {after.upstream}, asked for {upstream}")
        return after

    def secure(
        self, name: str, *, listen_tls: Mapping[str, object] | None, upstream_tls: Mapping[str, object] | None
    ) -> None:
        """Set other certificates for new connections, on the embedded server. Open connections continue."""
        wanted = {"listen_tls": listen_tls, "upstream_tls": upstream_tls}
        given: dict[str, object] = {key: dict(value) for key, value in wanted.items() if value is not None}
        self._calls.change(_path(name), given)
        shown: Mapping[str, Any] = self._calls.call("GET", _path(name)).json()  # Any: JSON
        for key, value in given.items():
            if not value.items() <= (shown.get(key) or {}).items():  # type: ignore[attr-defined]
                raise NotApplied(f"{name}: {key} is {shown.get(key)}, asked for {value}")

    def log_requests(self, name: str, *, is_on: bool) -> None:
        """Whether all Produce requests of this proxy are logged, on the embedded server."""
        self._calls.change(_path(name), {"kafka_log": is_on})

    def request_log_problem(self) -> str:
        """Why requests are missing in the log of the embedded server; empty if the file has all until now."""
        return self._calls.parsed("/kafka_log", lambda found: str(found["problem"]))

    def watch_exchanges(
        self, name: str, *, client_ids: Collection[str] = (), bytes_max: int | None = None, frame_bytes_max: int = 0
    ) -> None:
        """Write all exchanges of this proxy that begin from now on into the exchange log of the embedded server, or
        those of some client ids. Frames of up to `frame_bytes_max` bytes are in the lines. The lines have at most
        `bytes_max` bytes (256 MiB unless given), and then it stops. runlog/records/exchange.py reads the log."""
        limits = {"frame_bytes_max": frame_bytes_max} | ({} if bytes_max is None else {"bytes_max": bytes_max})
        self._calls.call("POST", f"{_path(name)}/kafka_exchanges", {"client_ids": list(client_ids), **limits})

    def unwatch_exchanges(self, name: str) -> None:
        """Exchanges that begin from now on are not written. Those that have begun still are."""
        self._calls.call("DELETE", f"{_path(name)}/kafka_exchanges")

    def exchanges_stopped(self, name: str) -> str:
        """Why no further exchange of this proxy is written, for example because its lines have all bytes that they may
        have; empty while they are. NotFound if it was not asked for them."""
        return self._calls.parsed(f"{_path(name)}/kafka_exchanges", lambda found: str(found["stopped"]))

    def exchange_log_problem(self) -> str:
        """Why lines are missing in the exchange log, for all proxies; empty if the file has all until now. It waits for
        the disk, so afterwards the file can be read."""
        return self._calls.parsed("/kafka_exchanges", lambda found: str(found["problem"]))

    def reopen_exchange_log(self) -> None:
        """Go on in a new exchange log of the same name, after the caller has moved the old one away. That one has all
        lines until now. Each proxy may write all its bytes again."""
        self._calls.call("POST", "/kafka_exchanges")

    def enable(self, name: str) -> ProxyState:
        with self._routed():
            self._library_proxy(name).enable()
        return self._expect_enabled(name, True)

    def disable(self, name: str) -> ProxyState:
        """Close the connections of the proxy. Later ones are refused."""
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
        """Change a toxic without the gap that removing and adding it would leave."""
        current = self.toxic(proxy, name)
        _check_attributes(current.type, attributes)
        # For some types of toxics, Toxiproxy up to 2.12 resets attributes that an update leaves out. So all are sent.
        fields: dict[str, object] = {"attributes": current.attributes | dict(attributes)}
        self._calls.change(
            f"{_path(proxy)}/toxics/{quote(name, safe='')}",
            fields | {"toxicity": current.toxicity if toxicity is None else toxicity},
        )
        return self._expect_attributes(proxy, name, attributes)

    def remove_toxic(self, proxy: str, name: str) -> None:
        with self._routed():
            self._library_proxy(proxy).destroy_toxic(quote(name, safe=""))

    def retire_toxic(self, proxy: str, name: str, *, then: Callable[[], None] = lambda: None) -> None:
        """Remove a toxic. If there is a stall behind it, it is removed later, together with the stall. `then` is called
        when it is removed.

        Toxiproxy 2.12.0 can panic when a toxic is added to a proxy after the following (docs/guide/found.md). Toxics
        were removed in the order in which they were added, while a stall behind them held data of a connection whose
        sender had closed it. It is safe to remove the last toxic first.
        """
        chain: tuple[ToxicState, ...] = ()
        with contextlib.suppress(NotFound):
            chain = self.proxy(proxy).toxics
        own = next((each for each in chain if each.name == name), None)
        if own is None:
            then()  # it was never added
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
        return self._calls.parsed(f"{_path(proxy)}/toxics/{quote(name, safe='')}", toxic_state)

    def toxics(self, proxy: str) -> dict[str, ToxicState]:
        return {toxic.name: toxic for toxic in self.proxy(proxy).toxics}

    def reset(self) -> None:
        """Enable all proxies, remove all toxics."""
        with self._routed():
            self._library.reset()

    @contextlib.contextmanager
    def down(self, name: str) -> Iterator[None]:
        """Within this context the proxy is disabled. Afterwards it has its old state."""
        was_enabled = self.proxy(name).is_enabled
        self.disable(name)
        try:
            yield
        finally:
            if was_enabled:
                self.enable(name)

    def close(self) -> None:
        self._calls.close()

    @contextlib.contextmanager
    def _routed(self) -> Iterator[None]:
        token = _current.set(self._calls)
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
        """The library does not quote names in paths, so it gets a quoted name."""
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


def _check_attributes(type_name: str, attributes: Mapping[str, AttributeValue]) -> None:
    spec = ALL.get(type_name)
    if spec is None:
        return  # a type that we do not know; the server decides
    known = [attribute.name for attribute in spec.attributes]
    for name in attributes:
        if name not in known:
            raise InvalidRequest(unknown_attribute(type_name, name, known), status=400)
