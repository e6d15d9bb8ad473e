"""What all connections of one proxy share for Kafka: its toxics, its logs, names of topics, addresses. The logs, the
names and the toxics' turns are those of all proxies."""

from __future__ import annotations

from dataclasses import dataclass, field

from chaos.toxiproxy.kafka import addresses, produce
from chaos.toxiproxy.kafka.exchange_log import ExchangeLog, Watch
from chaos.toxiproxy.kafka.turns import Turns
from chaos.toxiproxy.kafka.wire_log import WireLog
from chaos.toxiproxy.toxic import Toxic


@dataclass(slots=True, kw_only=True)
class KafkaSettings:
    proxy: str
    wire_log: WireLog
    names: produce.TopicNames
    exchange_log: ExchangeLog = field(default_factory=lambda: ExchangeLog(None))
    turns: Turns = field(default_factory=Turns)
    is_logging_asked: bool = False
    watch: Watch | None = None  # what this proxy writes into the exchange log
    toxics: list[Toxic] = field(default_factory=list)  # the Kafka toxics, in the order in which they were added
    rewrites: addresses.Mapped = field(default_factory=dict)  # the brokers' own addresses -> those of their proxies

    def wants_frames(self) -> bool:
        """Whether frames are read from the start. A wire log needs this, because it needs the topic names in Metadata
        and earlier attempts."""
        is_logging = self.is_logging_asked or self.wire_log.is_open or self.watch is not None
        return bool(self.toxics or self.rewrites or is_logging)

    def is_armed(self) -> bool:
        return self.is_logging_asked or bool(self.toxics)

    def of_type(self, kind: str) -> list[Toxic]:
        return [toxic for toxic in self.toxics if toxic.spec.type == kind]
