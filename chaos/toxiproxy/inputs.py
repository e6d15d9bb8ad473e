"""The proxies and toxics in requests to the API, read from JSON as the original reads them.

The original accepts almost everything: unknown attributes are ignored, an attribute may have any value of 64 bits, and
an address may be any text. `Strictness.STRICT` refuses input that cannot have the wanted effect, because with a fault
that does nothing a harness would report wrong results. Kafka toxics and `no_accept` are ours, and are always strict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from broker.door.addresses import AddressError, parse_address
from chaos.toxiproxy.errors import ApiError, bad_request, missing_field
from chaos.toxiproxy.go_json import (
    Convert,
    GoJsonError,
    Value,
    as_flag,
    as_float32,
    as_struct,
    as_text,
    as_whole,
    cannot_unmarshal,
    decode,
    kind_of,
    plain,
    unmarshal,
)
from chaos.toxiproxy.kafka.exchange_log import CLIENT_IDS_MAX, FRAME_BYTES_MAX, WATCH_BYTES_MAX, Watch
from chaos.toxiproxy.tls import ListenTls, UpstreamTls
from chaos.toxiproxy.toxic import AttributeValue, ToxicSpec
from chaos.toxiproxy.toxics import STANDARD
from runlog.files.nearest import nearest_name

NAME_CHARACTERS_MAX: Final = 512
_OF_PROXY: Final[Mapping[str, Convert]] = {
    "name": as_text,
    "listen": as_text,
    "upstream": as_text,
    "enabled": as_flag,
    "kafka_log": as_flag,
    "kafka_addresses": as_struct("map[string]string"),
    "upstream_tls": as_struct("toxiproxy.UpstreamTls"),
    "listen_tls": as_struct("toxiproxy.ListenTls"),
}
_IN_POPULATE: Final = 'struct { toxiproxy.Proxy; Enabled *bool "json:\\"enabled\\"" }'
_IN_UPDATE: Final = 'struct { Attributes interface {} "json:\\"attributes\\""; Toxicity float32 "json:\\"toxicity\\"" }'
_GO_NAMES: Final = {"reset_peer": "ResetToxic"}  # the names of the others follow from their type


class Strictness(Enum):
    ORIGINAL = "original"
    STRICT = "strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProxy:
    name: str
    listen: str
    upstream: str
    is_enabled: bool
    is_logging_asked: bool
    rewrites: dict[tuple[str, int], tuple[str, int]]  # a broker's own address -> the address for clients
    tls: UpstreamTls | None
    listen_tls: ListenTls | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyUpdate:
    """A change of a proxy. None: the field does not change."""

    listen: str | None
    upstream: str | None
    is_enabled: bool | None
    is_logging_asked: bool | None
    tls: UpstreamTls | None
    listen_tls: ListenTls | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToxic:
    """A toxic to be created. Its attributes are read only after its type was found."""

    type: str
    stream: str
    name: str
    toxicity: float
    attributes: dict[str, Value]


def read(body: bytes) -> Value:
    try:
        return decode(body)
    except GoJsonError as error:
        raise bad_request(str(error)) from error


def new_proxy(value: Value, strictness: Strictness) -> NewProxy:
    return _new_proxy(_fields(value, _OF_PROXY, "toxiproxy.Proxy"), strictness, "")


def new_proxies(value: Value, strictness: Strictness) -> list[NewProxy]:
    """All entries are checked before the first proxy is created."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise bad_request(cannot_unmarshal(kind_of(value), f"value of type []{_IN_POPULATE}"))
    entries = [_fields(entry, _OF_PROXY, _IN_POPULATE, _in_populate) for entry in value]
    return [_new_proxy(entry, strictness, f" at proxy {index + 1}") for index, entry in enumerate(entries)]


def proxy_update(value: Value, strictness: Strictness) -> ProxyUpdate:
    fields = _fields(value, _OF_PROXY, "toxiproxy.Proxy")
    update = ProxyUpdate(
        listen=_text(fields, "listen"),
        upstream=_text(fields, "upstream"),
        is_enabled=_flag(fields, "enabled"),
        is_logging_asked=_flag(fields, "kafka_log"),
        tls=_upstream_tls(fields),
        listen_tls=_listen_tls(fields),
    )
    if strictness is Strictness.STRICT:
        for name, address in (("listen", update.listen), ("upstream", update.upstream)):
            if address is not None:
                split_address(name, address)
    return update


def new_toxic(value: Value, strictness: Strictness) -> NewToxic:
    known: dict[str, Convert] = {
        "name": as_text,
        "type": as_text,
        "stream": as_text,
        "toxicity": as_float32,
        "attributes": as_struct("toxics.NoopToxic"),
    }
    fields = _fields(value, known, "toxics.ToxicWrapper")
    kind, stream = _text(fields, "type") or "", _text(fields, "stream")
    stream = "downstream" if stream is None else stream
    toxicity = fields.get("toxicity", 1.0)
    assert isinstance(toxicity, float)
    return NewToxic(
        type=kind,
        stream=stream,
        name=_text(fields, "name") or f"{kind}_{stream}",
        toxicity=_checked_toxicity(toxicity, strictness),
        attributes=_attributes(fields),
    )


def toxic_update(
    value: Value, spec: ToxicSpec, toxicity: float, attributes: Mapping[str, AttributeValue], strictness: Strictness
) -> tuple[float, dict[str, AttributeValue]]:
    """The new toxicity and attributes. If something is refused, nothing changes. The original keeps what it had read
    before the error."""
    known: dict[str, Convert] = {
        "attributes": as_struct(f"toxics.{_go_name(spec.type)}"),
        "toxicity": as_float32,
    }
    fields = _fields(value, known, _IN_UPDATE)
    new = fields.get("toxicity", toxicity)
    assert isinstance(new, float)
    given = _attributes(fields)
    return _checked_toxicity(new, strictness), attributes_of(given, spec, attributes, strictness)


def new_watch(value: Value) -> Watch:
    """What of a proxy goes into the exchange log. No field is needed."""
    given = plain({} if value is None else value)
    limits = {"bytes_max": (1, WATCH_BYTES_MAX), "frame_bytes_max": (0, FRAME_BYTES_MAX)}
    if not isinstance(given, dict):
        raise bad_request(f"expected an object with client_ids, {' and '.join(limits)}, got {given!r}")
    for name, number in given.items():
        if name == "client_ids":
            continue
        if name not in limits:
            near = nearest_name(name, ["client_ids", *limits])
            raise bad_request(f"kafka_exchanges has no field {name!r}" + (f", did you mean {near!r}?" if near else ""))
        low, high = limits[name]
        if not isinstance(number, int) or isinstance(number, bool) or not low <= number <= high:
            raise bad_request(f"{name}: expected {low}..{high}, got {number!r}")
    client_ids = given.pop("client_ids", [])
    if not isinstance(client_ids, list) or not all(isinstance(each, str) for each in client_ids):
        raise bad_request(f"client_ids: expected texts, got {client_ids!r}")
    if len(client_ids) > CLIENT_IDS_MAX:
        raise bad_request(f"client_ids: expected at most {CLIENT_IDS_MAX}, got {len(client_ids)}")
    return Watch(client_ids=frozenset(client_ids), **given)


def attributes_of(
    value: dict[str, Value], spec: ToxicSpec, current: Mapping[str, AttributeValue], strictness: Strictness
) -> dict[str, AttributeValue]:
    """The given attributes added to `current`."""
    if strictness is Strictness.STRICT or spec.type not in STANDARD:
        return spec.parse({key: plain(each) for key, each in value.items()}, current)
    known = {each.name: as_whole("int" if spec.type == "slicer" else "int64") for each in spec.attributes}
    name = _go_name(spec.type)
    try:
        found = unmarshal(value, known, type_name=f"toxics.{name}", struct_name=name, path_of=_in_attributes)
    except GoJsonError as error:
        raise bad_request(str(error)) from error
    return {**current, **{key: number for key, number in found.items() if isinstance(number, int)}}


def split_address(field: str, address: str) -> tuple[str, int]:
    """Split host:port. Raises ApiError 400 for any other text."""
    try:
        return parse_address(address, allow_zero=True)
    except AddressError as error:
        raise ApiError(400, f"{field} must be host:port, got {address!r}") from error


def _new_proxy(fields: Mapping[str, object], strictness: Strictness, where: str) -> NewProxy:
    name, upstream = _text(fields, "name") or "", _text(fields, "upstream") or ""
    listen = _text(fields, "listen") or ""
    if not name:
        raise missing_field(f"name{where}")
    if not upstream:
        raise missing_field(f"upstream{where}")
    if strictness is Strictness.STRICT:
        listen = listen or "127.0.0.1:0"
        _check_name(name)
        split_address("listen", listen)
        split_address("upstream", upstream)
    is_enabled, is_logging_asked = _flag(fields, "enabled"), _flag(fields, "kafka_log")
    return NewProxy(
        name=name,
        listen=listen,
        upstream=upstream,
        is_enabled=is_enabled is not False,
        is_logging_asked=is_logging_asked is True,
        rewrites=_addresses(fields.get("kafka_addresses", {})),
        tls=_upstream_tls(fields),
        listen_tls=_listen_tls(fields),
    )


def _upstream_tls(fields: Mapping[str, object]) -> UpstreamTls | None:
    found = fields.get("upstream_tls")
    return UpstreamTls.from_json(found) if isinstance(found, dict) else None


def _listen_tls(fields: Mapping[str, object]) -> ListenTls | None:
    found = fields.get("listen_tls")
    return ListenTls.from_json(found) if isinstance(found, dict) else None


def _check_name(name: str) -> None:
    if len(name) > NAME_CHARACTERS_MAX:
        raise bad_request(f"name has {len(name)} characters, at most {NAME_CHARACTERS_MAX} are allowed")
    if name in (".", ".."):
        raise bad_request(f"name {name!r} cannot be part of a path")


def _checked_toxicity(toxicity: float, strictness: Strictness) -> float:
    if strictness is Strictness.STRICT and not 0 <= toxicity <= 1:
        raise bad_request(f"toxicity: expected a number from 0 to 1, got {toxicity!r}")
    return toxicity


def _addresses(value: object) -> dict[tuple[str, int], tuple[str, int]]:
    assert isinstance(value, dict)
    mapped = {}
    for real, shown_as in value.items():
        if not isinstance(shown_as, str):
            raise bad_request(f"kafka_addresses.{real}: expected host:port, got {shown_as!r}")
        mapped[split_address("kafka_addresses", real)] = split_address("kafka_addresses", shown_as)
    return mapped


def _in_attributes(name: str) -> str:
    return f"attributes.{name}"


def _in_populate(name: str) -> str:
    return name if name == "enabled" else f"Proxy.{name}"


def _fields(
    value: Value, known: Mapping[str, Convert], type_name: str, path_of: Callable[[str], str] = str
) -> dict[str, object]:
    struct_name = "" if type_name.startswith("struct") else type_name.rpartition(".")[2]  # some have no name
    try:
        return unmarshal(value, known, type_name=type_name, struct_name=struct_name, path_of=path_of)
    except GoJsonError as error:
        raise bad_request(str(error)) from error


def _go_name(kind: str) -> str:
    return _GO_NAMES.get(kind) or "".join(word.title() for word in kind.split("_")) + "Toxic"


def _text(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    assert value is None or isinstance(value, str)
    return value


def _attributes(fields: Mapping[str, object]) -> dict[str, Value]:
    value = fields.get("attributes", {})
    assert isinstance(value, dict)
    return value


def _flag(fields: Mapping[str, object], name: str) -> bool | None:
    value = fields.get(name)
    assert value is None or isinstance(value, bool)
    return value
