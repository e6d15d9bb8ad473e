"""What every toxic is made of: its attributes, its setting on a proxy, and the slot it has in one link.

A *toxic* is the setting that the API shows. All connections of a proxy share it. A *slot* is its place in the chain of
one direction of one connection. The *behaviour* in the slot is defined in the toxic's own file. Bytes are pushed
through the slots. A push returns when the next slot has taken the bytes. This limits the memory of a connection.
`tests/chaos/test_chaos_toxiproxy_conformance.py` shows the behaviour of each toxic.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from chaos.toxiproxy.errors import bad_request
from runlog.files.nearest import nearest_name

AttributeValue = int | str
INT64_MAX = (1 << 63) - 1
# A day. A longer time is a typing error, and much longer times overflow in event loops.
MILLISECONDS_MAX = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One attribute. It is an integer with a range, or a text. The type of `default` decides which."""

    name: str
    default: AttributeValue
    minimum: int = 0
    maximum: int = INT64_MAX
    choices: tuple[str, ...] = ()

    def check(self, value: object) -> AttributeValue:
        if isinstance(self.default, str):
            if not isinstance(value, str):
                raise bad_request(f"attribute {self.name}: expected a text, got {value!r}")
            if self.choices and value not in self.choices:
                raise bad_request(f"attribute {self.name}: expected one of {', '.join(self.choices)}, got {value!r}")
            return value
        if not isinstance(value, int) or isinstance(value, bool):
            raise bad_request(f"attribute {self.name}: expected a whole number, got {value!r}")
        if not self.minimum <= value <= self.maximum:
            raise bad_request(f"attribute {self.name}: expected {self.minimum}..{self.maximum}, got {value}")
        return value


class Sink(Protocol):
    """Where bytes go next."""

    async def push(self, data: bytes) -> None: ...

    async def finish(self) -> None: ...


class ConnectionControl(Protocol):
    """What a toxic may do to its connection."""

    def close(self) -> None:
        """Send what was written, then close both sides."""

    def reset(self) -> None:
        """Close both sides at once with RST."""


class Behaviour(Protocol):
    """One toxic at work in one slot."""

    async def push(self, data: bytes) -> None: ...

    async def finish(self) -> None:
        """The sender has closed its side."""

    def started(self) -> None:
        """The slot has become active."""

    def changed(self) -> None:
        """Attributes changed, or the toxic was removed (`slot.is_removed`)."""

    def is_idle(self) -> bool:
        """True if it holds no bytes back."""

    def stop(self) -> None:
        """The connection is gone: end all tasks and timers."""


Check = Callable[[Mapping[str, AttributeValue]], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToxicSpec:
    """The description of one toxic in its file. `make` is None for toxics that the Kafka tap carries out."""

    type: str
    attributes: tuple[Attribute, ...] = ()
    make: Callable[[Slot], Behaviour] | None = None
    check: Check | None = None
    is_kafka: bool = False
    stops_accepting: bool = False  # while a proxy has it, no new connection is accepted

    def parse(self, given: Mapping[str, object], current: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
        """Attributes of `given` added to those of `current`. null counts as absent. The case of names does not
        matter."""
        by_name = {attribute.name: attribute for attribute in self.attributes}
        result = dict(current)
        for raw_name, value in given.items():
            name = raw_name.lower()
            if value is None:
                continue
            if name not in by_name:
                raise bad_request(unknown_attribute(self.type, raw_name, list(by_name)))
            result[name] = by_name[name].check(value)
        problem = self.check(result) if self.check else None
        if problem:
            raise bad_request(problem)
        return result

    def defaults(self) -> dict[str, AttributeValue]:
        return {attribute.name: attribute.default for attribute in self.attributes}


def unknown_attribute(type_name: str, name: str, known: list[str]) -> str:
    near = nearest_name(name, known)
    hint = f", did you mean {near!r}?" if near else f", it has {', '.join(known) or 'none'}"
    return f"toxic {type_name} has no attribute {name!r}{hint}"


@dataclass(slots=True, kw_only=True)
class Toxic:
    """A toxic as the API shows it."""

    name: str
    spec: ToxicSpec
    stream: str  # as in the request; the original accepts and shows "Upstream" too
    toxicity: float
    attributes: dict[str, AttributeValue]
    # Only Kafka toxics have counters: of the requests that matched, and of those that they acted on.
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def is_upstream(self) -> bool:
        return self.stream.lower() == "upstream"

    def number(self, name: str) -> int:
        value = self.attributes[name]
        assert isinstance(value, int)
        return value

    def text(self, name: str) -> str:
        value = self.attributes[name]
        assert isinstance(value, str)
        return value

    def to_json(self) -> dict[str, object]:
        shown: dict[str, object] = {
            "attributes": self.attributes,
            "name": self.name,
            "type": self.spec.type,
            "stream": self.stream,
            # Go writes 1 and not 1.0.
            "toxicity": int(self.toxicity) if self.toxicity.is_integer() else self.toxicity,
        }
        if self.spec.is_kafka:
            shown["counters"] = self.counters
        return shown


class Slot:
    """A toxic's place in one direction of one connection."""

    def __init__(self, toxic: Toxic, next_sink: Sink, connection: ConnectionControl, rng: random.Random) -> None:
        assert toxic.spec.make is not None
        self.toxic = toxic
        self.next = next_sink
        self.connection = connection
        self.is_removed = False
        self._rng = rng
        self._pushes_under_way = 0
        self._wake = asyncio.Event()
        self.is_active = self.draw()
        self._behaviour = toxic.spec.make(self)
        if self.is_active:
            self._behaviour.started()

    def draw(self) -> bool:
        """Draw whether the toxic acts on this connection. Toxicity is the share of such connections."""
        return self._rng.random() < self.toxic.toxicity

    def jitter(self) -> float:
        """A uniform random number in [-1, 1)."""
        return self._rng.random() * 2 - 1

    def number(self, name: str) -> int:
        return self.toxic.number(name)

    async def push(self, data: bytes) -> None:
        if not self.is_active or (self.is_removed and self._behaviour.is_idle()):
            await self.next.push(data)
            return
        self._pushes_under_way += 1
        try:
            await self._behaviour.push(data)
        finally:
            self._pushes_under_way -= 1

    async def finish(self) -> None:
        if not self.is_active or (self.is_removed and self._behaviour.is_idle()):
            await self.next.finish()
            return
        self._pushes_under_way += 1
        try:
            await self._behaviour.finish()
        finally:
            self._pushes_under_way -= 1

    def is_idle(self) -> bool:
        return self._pushes_under_way == 0 and self._behaviour.is_idle()

    def update(self, *, redraw: bool) -> None:
        """The toxic has new attributes. With `redraw` it has a new toxicity too."""
        if redraw:
            was_active, self.is_active = self.is_active, self.draw() or not self.is_idle()
            if self.is_active and not was_active:
                self._behaviour.started()
        self._signal()

    def remove(self) -> None:
        self.is_removed = True
        self._signal()

    def stop(self) -> None:
        self._behaviour.stop()

    def _signal(self) -> None:
        self._wake.set()
        if self.is_active:
            self._behaviour.changed()

    async def sleep_ms(self, duration_ms: float) -> bool:
        """Sleep, at most a day. True if a change of the toxic has ended the sleep early."""
        if duration_ms <= 0:
            return False
        self._wake.clear()
        try:
            async with asyncio.timeout(min(duration_ms, MILLISECONDS_MAX) / 1000):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True

    async def wait_changed(self) -> None:
        """Wait for the next change or removal. The end of the connection cancels this."""
        self._wake.clear()
        await self._wake.wait()


class PassThrough:
    """The parts of a behaviour that most toxics have in common. Used by composition and not inherited."""

    __slots__ = ()

    def started(self) -> None:
        return None

    def changed(self) -> None:
        return None

    def is_idle(self) -> bool:
        return True

    def stop(self) -> None:
        return None
