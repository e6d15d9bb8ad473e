"""The Kafka part of one proxied connection, without sockets and clocks."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chaos.toxiproxy.kafka import produce
from chaos.toxiproxy.kafka.apis import API_KEYS
from chaos.toxiproxy.kafka.settings import KafkaSettings
from chaos.toxiproxy.kafka.tap import KafkaTap
from chaos.toxiproxy.kafka.wire_log import WireLog
from chaos.toxiproxy.toxic import Toxic
from chaos.toxiproxy.toxics import KAFKA
from tests.chaos.kafka_samples import request_frame, response_frame, sample_request, sample_response


@dataclass
class Wire:
    """A tap, and what reaches its broker and its client. Time passes only in `pass_ms`."""

    toxics: list[Toxic]
    to_broker: bytes = b""
    to_client: bytes = b""
    is_client_read: bool = True
    is_broker_read: bool = True
    ended: list[str] = field(default_factory=list)
    _timers: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    _now_ms: float = 0.0

    def __post_init__(self) -> None:
        self.settings = KafkaSettings(
            proxy="p", wire_log=WireLog(None), names=produce.TopicNames(), toxics=list(self.toxics)
        )
        self.tap = KafkaTap(self.settings, 1, self, random.Random(1))

    def emit(self, data: bytes) -> None:
        self.to_client += data

    def forward_late(self, data: bytes) -> None:
        self.to_broker += data

    def cut_client(self) -> None:
        self.ended.append("client")

    def close(self) -> None:
        self.ended.append("both")

    def drained(self) -> None:
        self.ended.append("broker")

    def read_client(self, is_reading: bool) -> None:
        self.is_client_read = is_reading

    def read_broker(self, is_reading: bool) -> None:
        self.is_broker_read = is_reading

    def call_later_ms(self, delay_ms: float, action: Callable[[], None]) -> Callable[[], object]:
        timer = (self._now_ms + delay_ms, action)
        self._timers.append(timer)
        return lambda: self._timers.remove(timer) if timer in self._timers else None

    def pass_ms(self, duration_ms: float) -> None:
        self._now_ms += duration_ms
        while due := [timer for timer in self._timers if timer[0] <= self._now_ms]:
            for timer in sorted(due, key=lambda each: each[0]):
                if timer in self._timers:
                    self._timers.remove(timer)
                    timer[1]()

    def send(self, *frames: bytes) -> None:
        data = self.tap.forward(b"".join(frames))  # which may itself emit
        self.to_broker += data

    def answer(self, *frames: bytes) -> None:
        data = self.tap.backward(b"".join(frames))
        self.to_client += data

    def heal(self) -> None:
        self.settings.toxics.clear()
        self.tap.toxics_changed()
        self.pass_ms(0)


def toxic(kind: str, **attributes: Any) -> Toxic:
    spec = KAFKA[kind]
    return Toxic(name="t", spec=spec, stream="downstream", toxicity=1.0,
                 attributes=spec.parse({"api": "Heartbeat", **attributes}, spec.defaults()))  # fmt: skip


def request(number: int, api: str = "Heartbeat", version: int = 4) -> bytes:
    return renumbered(request_frame(API_KEYS[api], version, sample_request(API_KEYS[api], version)), 8, number)


def response(number: int, api: str = "Heartbeat", version: int = 4) -> bytes:
    return renumbered(response_frame(API_KEYS[api], version, sample_response(API_KEYS[api], version)), 4, number)


def renumbered(frame: bytes, position: int, number: int) -> bytes:
    return frame[:position] + number.to_bytes(4, "big") + frame[position + 4 :]
