"""A proxy to be created, and the state of proxies and toxics that a Toxiproxy server reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.toxiproxy.toxic import AttributeValue


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
        """Whether this toxic lets nothing pass and loses nothing."""
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
    """A proxy to be created. Only the embedded server understands `kafka_log`, `kafka_addresses`, `upstream_tls` and
    `listen_tls`.

    `kafka_addresses`: in responses, each broker's own host:port is replaced by the one that it maps to. `upstream_tls`:
    the proxy uses TLS to the upstream. `listen_tls`: it uses TLS to its clients. chaos/toxiproxy/tls.py has the fields
    of both. Inside the proxy the bytes are plain, so that Kafka's frames can be read.
    """

    name: str
    upstream: str
    listen: str = "127.0.0.1:0"
    is_enabled: bool = True
    kafka_log: bool = False
    kafka_addresses: Mapping[str, str] = field(default_factory=dict)
    upstream_tls: Mapping[str, object] | None = None
    listen_tls: Mapping[str, object] | None = None

    @property
    def is_for_embedded(self) -> bool:
        return self.kafka_log or bool(self.kafka_addresses) or (self.upstream_tls or self.listen_tls) is not None

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
        if self.listen_tls is not None:
            fields["listen_tls"] = dict(self.listen_tls)
        return fields


def toxic_state(fields: Mapping[str, Any]) -> ToxicState:
    return ToxicState(
        name=fields["name"],
        type=fields["type"],
        stream=fields["stream"],
        toxicity=fields["toxicity"],
        attributes=dict(fields["attributes"] or {}),
        counters=dict(fields.get("counters") or {}),
    )


def proxy_state(fields: Mapping[str, Any]) -> ProxyState:
    return ProxyState(
        name=fields["name"],
        listen=fields["listen"],
        upstream=fields["upstream"],
        is_enabled=fields["enabled"],
        toxics=tuple(toxic_state(toxic) for toxic in fields.get("toxics") or ()),
    )
