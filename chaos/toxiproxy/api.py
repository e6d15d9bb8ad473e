"""The calls of Toxiproxy's HTTP API on the embedded server: routes, checks of the input, JSON answers.

Knows only method, path and body of HTTP. It keeps habits of the original that scripts rely on: null counts as absent,
names of fields ignore case, a whole number must not be written as 3.0, POST does the same as PATCH.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import unquote

from chaos.toxiproxy.errors import (
    ApiError,
    bad_request,
    invalid_stream,
    invalid_toxic_type,
    missing_field,
    proxy_exists,
    proxy_not_found,
    toxic_exists,
    toxic_not_found,
)
from chaos.toxiproxy.kafka.produce import TopicNames
from chaos.toxiproxy.kafka.settings import KafkaSettings
from chaos.toxiproxy.kafka.wire_log import WireLog
from chaos.toxiproxy.link import DOWNSTREAM, UPSTREAM
from chaos.toxiproxy.proxy import Proxy, split_address
from chaos.toxiproxy.tls import UpstreamTls
from chaos.toxiproxy.toxic import Toxic
from chaos.toxiproxy.toxics import ALL

VERSION = "2.12.0+embedded"
PROXIES_MAX = 10_000
NAME_CHARACTERS_MAX = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    body: object = None  # None sends no body


Handler = Callable[[list[str], bytes], Awaitable[Answer]]


class Api:
    """All proxies of one server. Changes are made one after another, and none of them waits for a peer."""

    def __init__(self, *, wire_log: WireLog, rng: random.Random) -> None:
        self._proxies: dict[str, Proxy] = {}
        self._wire_log = wire_log
        self._names = TopicNames()
        self._rng = rng
        self._changing = asyncio.Lock()

    async def handle(self, method: str, path: str, body: bytes) -> Answer:
        """Raises ApiError."""
        parts = [unquote(part) for part in path.split("?", 1)[0].strip("/").split("/")]
        handlers = self._route(parts)
        if handlers is None:
            raise ApiError(404, f"no such path: {path}")
        if method not in handlers:
            raise ApiError(405, f"method {method} is not for {path}, use {', '.join(handlers)}")
        if method == "GET":
            return await handlers[method](parts[1:], body)
        async with self._changing:
            return await handlers[method](parts[1:], body)

    def stop(self) -> None:
        for proxy in self._proxies.values():
            proxy.stop()

    def _route(self, parts: list[str]) -> dict[str, Handler] | None:
        match parts:
            case ["version"]:
                return {"GET": self._version}
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
        return Answer(status=200, body={"version": VERSION})

    async def _reset(self, names: list[str], body: bytes) -> Answer:
        for proxy in list(self._proxies.values()):
            await proxy.start()
            for toxic in list(proxy.toxics):
                proxy.remove_toxic(toxic)
            await proxy.settle()
        return Answer(status=204)

    async def _list_proxies(self, names: list[str], body: bytes) -> Answer:
        return Answer(status=200, body={name: proxy.to_json() for name, proxy in self._proxies.items()})

    async def _show_proxy(self, names: list[str], body: bytes) -> Answer:
        return Answer(status=200, body=self._proxy(names[0]).to_json())

    async def _create_proxy(self, names: list[str], body: bytes) -> Answer:
        proxy, is_enabled = self._read_new_proxy(_object(_decode(body)), "")
        if proxy.name in self._proxies:
            raise proxy_exists()
        await self._add(proxy, is_enabled)
        return Answer(status=201, body=proxy.to_json())

    async def _populate(self, names: list[str], body: bytes) -> Answer:
        """Creates what is new, replaces what has other addresses, leaves the rest alone. Checks everything before it
        acts."""
        entries = _decode(body)
        if not isinstance(entries, list):
            raise bad_request("expected a list of proxies")
        wanted = [self._read_new_proxy(_object(entry), f" at proxy {index + 1}") for index, entry in enumerate(entries)]
        shown: list[object] = []
        for proxy, is_enabled in wanted:
            current = self._proxies.get(proxy.name)
            if current and (current.listen, current.upstream) == (proxy.listen, proxy.upstream):
                shown.append(current.to_json())
                continue
            if current:
                current.stop()
                del self._proxies[proxy.name]
            await self._add(proxy, is_enabled)
            shown.append(proxy.to_json())
        return Answer(status=201, body={"proxies": shown or None})

    async def _update_proxy(self, names: list[str], body: bytes) -> Answer:
        proxy = self._proxy(names[0])
        fields = _object(_decode(body))
        listen = _text(fields, "listen", proxy.listen)
        upstream = _text(fields, "upstream", proxy.upstream)
        is_enabled = _flag(fields, "enabled", proxy.is_enabled)
        split_address("listen", listen)
        split_address("upstream", upstream)
        proxy.kafka.is_logging_asked = _flag(fields, "kafka_log", proxy.kafka.is_logging_asked)
        if (listen, upstream) != (proxy.listen, proxy.upstream):
            proxy.stop()
            proxy.listen, proxy.upstream = listen, upstream
        if is_enabled:
            await proxy.start()
        else:
            proxy.stop()
        return Answer(status=200, body=proxy.to_json())

    async def _delete_proxy(self, names: list[str], body: bytes) -> Answer:
        proxy = self._proxy(names[0])
        proxy.stop()
        del self._proxies[proxy.name]
        return Answer(status=204)

    async def _list_toxics(self, names: list[str], body: bytes) -> Answer:
        return Answer(status=200, body=self._proxy(names[0]).to_json()["toxics"])

    async def _show_toxic(self, names: list[str], body: bytes) -> Answer:
        return Answer(status=200, body=self._toxic(names).to_json())

    async def _create_toxic(self, names: list[str], body: bytes) -> Answer:
        proxy = self._proxy(names[0])
        fields = _object(_decode(body))
        type_name = _text(fields, "type", "")
        stream = _text(fields, "stream", DOWNSTREAM).lower()
        if stream not in (UPSTREAM, DOWNSTREAM):
            raise invalid_stream()
        if type_name not in ALL:
            raise invalid_toxic_type(type_name, sorted(ALL))
        name = _text(fields, "name", "") or f"{type_name}_{stream}"
        if proxy.find_toxic(name):
            raise toxic_exists()
        spec = ALL[type_name]
        toxic = Toxic(
            name=name,
            spec=spec,
            stream=stream,
            toxicity=_toxicity(fields, 1.0),
            attributes=spec.parse(_object(fields.get("attributes") or {}), spec.defaults()),
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
        fields = _object(_decode(body))
        toxicity = _toxicity(fields, toxic.toxicity)
        attributes = toxic.spec.parse(_object(fields.get("attributes") or {}), toxic.attributes)
        is_redrawn = toxicity != toxic.toxicity
        toxic.toxicity, toxic.attributes = toxicity, attributes
        self._proxy(names[0]).update_toxic(toxic, redraw=is_redrawn)
        return Answer(status=200, body=toxic.to_json())

    async def _delete_toxic(self, names: list[str], body: bytes) -> Answer:
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

    async def _add(self, proxy: Proxy, is_enabled: bool) -> None:
        if len(self._proxies) >= PROXIES_MAX:
            raise ApiError(400, f"at most {PROXIES_MAX} proxies")
        self._proxies[proxy.name] = proxy
        if is_enabled:
            try:
                await proxy.start()
            except ApiError:
                del self._proxies[proxy.name]
                raise

    def _read_new_proxy(self, fields: dict[str, object], where: str) -> tuple[Proxy, bool]:
        name, upstream = _text(fields, "name", ""), _text(fields, "upstream", "")
        if not name:
            raise missing_field(f"name{where}")
        if len(name) > NAME_CHARACTERS_MAX:
            raise bad_request(f"name has {len(name)} characters, at most {NAME_CHARACTERS_MAX} are allowed")
        if name in (".", ".."):
            raise bad_request(f"name {name!r} cannot be part of a path")
        if not upstream:
            raise missing_field(f"upstream{where}")
        listen = _text(fields, "listen", "") or "127.0.0.1:0"
        split_address("listen", listen)
        split_address("upstream", upstream)
        kafka = KafkaSettings(
            proxy=name,
            wire_log=self._wire_log,
            names=self._names,
            is_logging_asked=_flag(fields, "kafka_log", False),
            rewrites=_addresses(fields),
        )
        tls = UpstreamTls.from_json(_object(fields["upstream_tls"])) if "upstream_tls" in fields else None
        proxy = Proxy(name=name, listen=listen, upstream=upstream, kafka=kafka, rng=self._rng, tls=tls)
        return proxy, _flag(fields, "enabled", True)


def _decode(body: bytes) -> object:
    if not body.strip():
        raise bad_request("EOF")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"not JSON: {error}") from error


def _object(value: object) -> dict[str, object]:
    """Field names in lower case, nulls left out."""
    if not isinstance(value, dict):
        raise bad_request(f"expected an object, got {type(value).__name__}")
    return {str(name).lower(): item for name, item in value.items() if item is not None}


def _text(fields: dict[str, object], name: str, default: str) -> str:
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise bad_request(f"{name}: expected a text, got {value!r}")
    return value


def _addresses(fields: dict[str, object]) -> dict[tuple[str, int], tuple[str, int]]:
    """`kafka_addresses`: maps a broker's own address to the one that clients shall use."""
    value = fields.get("kafka_addresses", {})
    if not isinstance(value, dict):
        raise bad_request(f"kafka_addresses: expected an object of addresses, got {value!r}")
    mapped = {}
    for real, shown_as in value.items():
        if not isinstance(shown_as, str):
            raise bad_request(f"kafka_addresses.{real}: expected host:port, got {shown_as!r}")
        mapped[split_address("kafka_addresses", real)] = split_address("kafka_addresses", shown_as)
    return mapped


def _flag(fields: dict[str, object], name: str, default: bool) -> bool:
    value = fields.get(name, default)
    if not isinstance(value, bool):
        raise bad_request(f"{name}: expected true or false, got {value!r}")
    return value


def _toxicity(fields: dict[str, object], default: float) -> float:
    value = fields.get("toxicity", default)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise bad_request(f"toxicity: expected a number from 0 to 1, got {value!r}")
    return float(value)
