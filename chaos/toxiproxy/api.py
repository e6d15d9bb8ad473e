"""The calls of Toxiproxy's HTTP API on the embedded server: routes, and what each call does.

It knows only method, path and body of HTTP. Its answers are equal to the original's, byte by byte
(tests/chaos/test_chaos_toxiproxy_differential.py). `inputs.py` says what `Strictness.STRICT` refuses.
"""

from __future__ import annotations

import asyncio
import posixpath
import random
from collections.abc import Awaitable, Callable, Iterable
from urllib.parse import unquote

from chaos.toxiproxy.answer import METHOD_NOT_ALLOWED, PAGE_NOT_FOUND, Answer, error_answer, moved_to
from chaos.toxiproxy.errors import (
    ApiError,
    invalid_stream,
    invalid_toxic_type,
    proxy_exists,
    proxy_not_found,
    toxic_exists,
    toxic_not_found,
)
from chaos.toxiproxy.inputs import (
    NewProxy,
    Strictness,
    attributes_of,
    new_proxies,
    new_proxy,
    new_toxic,
    new_watch,
    proxy_update,
    read,
    toxic_update,
)
from chaos.toxiproxy.kafka.exchange_log import ExchangeLog
from chaos.toxiproxy.kafka.produce import TopicNames
from chaos.toxiproxy.kafka.settings import KafkaSettings
from chaos.toxiproxy.kafka.turns import Turns
from chaos.toxiproxy.kafka.wire_log import WireLog
from chaos.toxiproxy.link import DOWNSTREAM, UPSTREAM
from chaos.toxiproxy.metrics import ProxyMetrics, handler_lines, metrics_answer, process_lines
from chaos.toxiproxy.proxy import Proxy
from chaos.toxiproxy.pump import Pump
from chaos.toxiproxy.toxic import Toxic
from chaos.toxiproxy.toxics import ALL

VERSION = "2.12.0+embedded"
PROXIES_MAX = 10_000
WIRE_LOG_WAIT_S = 3.0  # less than callers wait for an answer

# The event loop needs one turn to see the listener, one to accept and two to make the transport. One is to spare.
ACCEPT_TURNS = 5

Handler = Callable[[list[str], bytes], Awaitable[Answer]]


async def _accept_all() -> None:
    """Let the event loop accept who has connected before this call: the kernel connects clients without us."""
    for _ in range(ACCEPT_TURNS):
        await asyncio.sleep(0)


class Api:
    """All proxies of one server. Changes are made one after another, and none of them waits for a peer. The look-up of
    a host name to listen on takes at most five seconds. An IP address needs no look-up."""

    def __init__(
        self,
        *,
        wire_log: WireLog,
        exchange_log: ExchangeLog | None = None,
        rng: random.Random,
        strictness: Strictness,
        has_proxy_metrics: bool = False,
        has_runtime_metrics: bool = False,
        pump: Pump | None = None,
    ) -> None:
        self._strictness = strictness
        self._proxy_metrics = ProxyMetrics() if has_proxy_metrics else None
        self._metric_sources: list[Callable[[], Iterable[str]]] = []  # in the order of their names
        if has_runtime_metrics:
            self._metric_sources.append(process_lines)
        if has_proxy_metrics or has_runtime_metrics:
            self._metric_sources.append(handler_lines)
        if self._proxy_metrics is not None:
            self._metric_sources.append(self._proxy_metrics.lines)
        self._proxies: dict[str, Proxy] = {}
        self._wire_log = wire_log
        self._exchange_log = exchange_log or ExchangeLog(None)
        self._pump = pump
        self._names = TopicNames()
        self._turns = Turns()
        self._rng = rng
        self._changing = asyncio.Lock()

    async def handle(self, method: str, path: str, body: bytes) -> Answer:
        path, _, query = path.partition("?")
        if self._strictness is Strictness.STRICT:  # a name may contain a slash, written as %2F
            parts = [unquote(part) for part in path.strip("/").split("/")]
        else:
            plain = unquote(path)
            clean = posixpath.normpath(f"/{plain.lstrip('/')}") + ("/" if plain.endswith("/") and plain != "/" else "")
            if clean != plain:
                return moved_to(clean, query)
            parts = plain[1:].split("/")
        if self._metric_sources and parts == ["metrics"]:  # any method, as in Go's handler
            return metrics_answer(self._metric_sources)
        handlers = self._route(parts)
        if handlers is None:
            return PAGE_NOT_FOUND
        if method not in handlers:
            return METHOD_NOT_ALLOWED
        try:
            if method == "GET":
                return await handlers[method](parts[1:], body)
            async with self._changing:
                return await handlers[method](parts[1:], body)
        except ApiError as error:
            return error_answer(error)

    def stop(self) -> None:
        for proxy in self._proxies.values():
            proxy.stop()

    def _route(self, parts: list[str]) -> dict[str, Handler] | None:
        if "" in parts:
            return None
        match parts:
            case ["version"]:
                return {"GET": self._version}
            case ["kafka_log"]:  # not in the original
                return {"GET": self._show_wire_log}
            case ["kafka_exchanges"]:  # likewise
                return {"GET": self._show_exchange_log, "POST": self._reopen_exchange_log}
            case ["proxies", _, "kafka_exchanges"]:
                return {"GET": self._show_watch, "POST": self._watch, "DELETE": self._unwatch}
            case ["reset"]:
                return {"POST": self._reset}
            case ["populate"]:
                return {"POST": self._populate}
            case ["proxies"]:
                return {"GET": self._list_proxies, "POST": self._create_proxy}
            case ["proxies", _]:
                update = self._update_proxy
                return {"GET": self._show_proxy, "POST": update, "PATCH": update, "DELETE": self._delete_proxy}
            case ["proxies", _, "toxics"]:
                return {"GET": self._list_toxics, "POST": self._create_toxic}
            case ["proxies", _, "toxics", _]:
                change = self._update_toxic
                return {"GET": self._show_toxic, "POST": change, "PATCH": change, "DELETE": self._delete_toxic}
        return None

    async def _version(self, names: list[str], body: bytes) -> Answer:
        return Answer(status=200, body={"version": VERSION}, content_type="application/json;charset=utf-8", ending="\n")

    async def _show_wire_log(self, names: list[str], body: bytes) -> Answer:
        """Whether the wire log has all lines until now. Waits for the disk, but not on the event loop."""
        loop = asyncio.get_running_loop()
        problem = await loop.run_in_executor(None, self._wire_log.problem_after, WIRE_LOG_WAIT_S)
        return Answer(status=200, body={"problem": problem})

    async def _show_exchange_log(self, names: list[str], body: bytes) -> Answer:
        """Likewise for the exchange log."""
        loop = asyncio.get_running_loop()
        problem = await loop.run_in_executor(None, self._exchange_log.file.problem_after, WIRE_LOG_WAIT_S)
        return Answer(status=200, body={"problem": problem})

    async def _reopen_exchange_log(self, names: list[str], body: bytes) -> Answer:
        """Go on in a new file, after the caller has moved the old one away. Each watch may have all its bytes again."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(None, self._exchange_log.file.reopen, WIRE_LOG_WAIT_S)
        except OSError as error:
            raise ApiError(500, f"the exchange log cannot be opened anew: {error}") from error
        self._exchange_log.file.resume()
        for proxy in self._proxies.values():
            if proxy.kafka.watch is not None:
                proxy.kafka.watch.begin_anew()
        return Answer(status=204)

    async def _watch(self, names: list[str], body: bytes) -> Answer:
        """Write the exchanges of a proxy into the exchange log, from now on. A watch before it ends."""
        proxy = self._proxy(names[0])
        watch = new_watch(read(body))
        if not self._exchange_log.file.is_there:
            raise ApiError(400, "this server was started without --exchange-log")
        self._exchange_log.file.resume()
        proxy.watch(watch)
        return Answer(status=200, body=watch.to_json())

    async def _show_watch(self, names: list[str], body: bytes) -> Answer:
        watch = self._proxy(names[0]).kafka.watch
        if watch is None:
            raise ApiError(404, "no exchanges of this proxy are logged")
        return Answer(status=200, body=watch.to_json())

    async def _unwatch(self, names: list[str], body: bytes) -> Answer:
        self._proxy(names[0]).watch(None)
        return Answer(status=204)

    async def _reset(self, names: list[str], body: bytes) -> Answer:
        """Reset every proxy, also if another one fails. The original stops at the first proxy that cannot listen."""
        first: ApiError | None = None
        await _accept_all()
        for proxy in list(self._proxies.values()):
            for toxic in list(proxy.toxics):
                proxy.remove_toxic(toxic)
            try:
                await proxy.start()
                await proxy.settle()
            except ApiError as error:
                first = first or error
        if first is not None:
            raise first
        return Answer(status=204)

    async def _list_proxies(self, names: list[str], body: bytes) -> Answer:
        return Answer(status=200, body={name: proxy.to_json() for name, proxy in self._proxies.items()})

    async def _show_proxy(self, names: list[str], body: bytes) -> Answer:
        return Answer(status=200, body=self._proxy(names[0]).to_json())

    async def _create_proxy(self, names: list[str], body: bytes) -> Answer:
        asked = new_proxy(read(body), self._strictness)
        if asked.name in self._proxies:
            raise proxy_exists()
        proxy = await self._add(asked)
        return Answer(status=201, body=proxy.to_json())

    async def _populate(self, names: list[str], body: bytes) -> Answer:
        """Create new proxies, replace those that differ, and leave the others alone. It stops at the first failure, and
        the answer shows what was done before."""
        shown: list[object] = []
        try:
            for asked in new_proxies(read(body), self._strictness):
                current = self._proxies.get(asked.name)
                if current is None:
                    shown.append((await self._add(asked)).to_json())
                    continue
                if await current.differs(listen=asked.listen, upstream=asked.upstream):
                    current.end()
                    current = await self._add(asked)
                shown.append(current.to_json())
        except ApiError as error:
            return Answer(
                status=error.status,
                body={"error": error.message, "status": error.status, "proxies": shown or None},
            )
        return Answer(status=201, body={"proxies": shown or None})

    async def _update_proxy(self, names: list[str], body: bytes) -> Answer:
        proxy = self._proxy(names[0])
        asked = proxy_update(read(body), self._strictness)
        listen = proxy.listen if asked.listen is None else asked.listen
        upstream = proxy.upstream if asked.upstream is None else asked.upstream
        is_enabled = proxy.is_enabled if asked.is_enabled is None else asked.is_enabled
        if await proxy.differs(listen=listen, upstream=upstream):
            proxy.stop()
            proxy.listen, proxy.upstream = listen, upstream
        if asked.is_logging_asked is not None:
            proxy.log_kafka(asked.is_logging_asked)
        await proxy.secure(tls=asked.tls, listen_tls=asked.listen_tls)
        if is_enabled:
            await proxy.start()
        else:
            proxy.stop()
        return Answer(status=200, body=proxy.to_json())

    async def _delete_proxy(self, names: list[str], body: bytes) -> Answer:
        proxy = self._proxy(names[0])
        proxy.end()
        del self._proxies[proxy.name]
        return Answer(status=204)

    async def _list_toxics(self, names: list[str], body: bytes) -> Answer:
        return Answer(status=200, body=self._proxy(names[0]).to_json()["toxics"])

    async def _show_toxic(self, names: list[str], body: bytes) -> Answer:
        return Answer(status=200, body=self._toxic(names).to_json())

    async def _create_toxic(self, names: list[str], body: bytes) -> Answer:
        proxy = self._proxy(names[0])
        asked = new_toxic(read(body), self._strictness)
        if asked.stream.lower() not in (UPSTREAM, DOWNSTREAM):
            raise invalid_stream()
        if asked.type not in ALL:
            raise invalid_toxic_type()
        if proxy.find_toxic(asked.name):
            raise toxic_exists()
        spec = ALL[asked.type]
        toxic = Toxic(
            name=asked.name,
            spec=spec,
            stream=asked.stream,
            toxicity=asked.toxicity,
            attributes=attributes_of(asked.attributes, spec, spec.defaults(), self._strictness),
        )
        proxy.add_toxic(toxic)
        try:
            await proxy.settle()
        except ApiError:
            proxy.remove_toxic(toxic)
            await proxy.settle()
            raise
        return Answer(status=200, body=toxic.to_json())

    async def _update_toxic(self, names: list[str], body: bytes) -> Answer:
        toxic = self._toxic(names)
        toxicity, attributes = toxic_update(read(body), toxic.spec, toxic.toxicity, toxic.attributes, self._strictness)
        self._proxy(names[0]).update_toxic(toxic, toxicity=toxicity, attributes=attributes)
        return Answer(status=200, body=toxic.to_json())

    async def _delete_toxic(self, names: list[str], body: bytes) -> Answer:
        await _accept_all()
        proxy = self._proxy(names[0])
        proxy.remove_toxic(self._toxic(names))
        await proxy.settle()
        return Answer(status=204)

    def _proxy(self, name: str) -> Proxy:
        if name not in self._proxies:
            raise proxy_not_found()
        return self._proxies[name]

    def _toxic(self, names: list[str]) -> Toxic:
        toxic = self._proxy(names[0]).find_toxic(names[2])
        if toxic is None:
            raise toxic_not_found()
        return toxic

    async def _add(self, asked: NewProxy) -> Proxy:
        """Add a proxy. It replaces one with the same name, unless it cannot listen."""
        if len(self._proxies) >= PROXIES_MAX and asked.name not in self._proxies:
            raise ApiError(400, f"at most {PROXIES_MAX} proxies")
        kafka = KafkaSettings(
            proxy=asked.name,
            wire_log=self._wire_log,
            exchange_log=self._exchange_log,
            names=self._names,
            turns=self._turns,
            is_logging_asked=asked.is_logging_asked,
            rewrites=asked.rewrites,
        )
        proxy = Proxy(
            name=asked.name,
            listen=asked.listen,
            upstream=asked.upstream,
            kafka=kafka,
            rng=self._rng,
            tls=asked.tls,
            listen_tls=asked.listen_tls,
            metrics=self._proxy_metrics,
            pump=self._pump,
        )
        if asked.is_enabled:
            await proxy.start()
        self._proxies[proxy.name] = proxy
        return proxy
