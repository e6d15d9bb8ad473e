"""What a feature is: a name of the table and a function that tries it, and the handle by which it drives a client."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.compatibility.driver import ClientFailure, Driver
from tests.compatibility.world import World
from tests.patience import Patience, wait_until

STEP_QUIET_S = 120.0  # a client may sit out time-outs of its own


class Client:
    """One client on one world. Producers and consumers have names; records are plain dictionaries."""

    def __init__(self, driver: Driver) -> None:
        self.call = driver.call

    def producer(self, name: str = "p", **config: object) -> None:
        self.call("producer_open", name=name, config={"acks": "all", **config})

    def send(self, topic: str, values: Sequence[Any], *, name: str = "p", partition: int = 0) -> list[int]:
        """Offsets in the order of the values, once all are acknowledged (-1 with acks=0). A value may be a record."""
        records = [value if isinstance(value, dict) else {"value": value} for value in values]
        full = [{"key": None, "headers": [], "timestamp": None, **record} for record in records]
        offsets: list[int] = self.call("send", name=name, topic=topic, partition=partition, records=full)
        return offsets

    def consumer(self, name: str = "c", **config: object) -> None:
        self.call("consumer_open", name=name, config={"reset": "earliest", **config})

    def poll(self, name: str = "c", timeout_ms: int = 500) -> dict[str, Any]:
        """{records: [{partition, offset, key, value, headers, timestamp, timestamp_type}], assignment: [partition]}"""
        found: dict[str, Any] = self.call("poll", name=name, timeout_ms=timeout_ms)
        return found

    def read(self, count: int, name: str = "c") -> list[dict[str, Any]]:
        """At least `count` records of what the consumer has before it."""
        records: list[dict[str, Any]] = []
        patience = Patience(f"{count} records", STEP_QUIET_S)
        while len(records) < count:
            patience.check(len(records))
            records += self.poll(name)["records"]
        return records

    def read_from(self, topic: str, count: int, *, offset: int = 0, **config: object) -> list[dict[str, Any]]:
        """`count` records of partition 0 by a new consumer that belongs to no group, and nothing beyond them."""
        self.consumer("reader", **config)
        try:
            self.call("assign", name="reader", topic=topic, partition=0, offset=offset)
            records = self.read(count, "reader")
            return records + self.poll("reader", 300)["records"]
        finally:
            self.call("consumer_close", name="reader")


Attempt: TypeAlias = Callable[[Client, World], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    name: str
    attempt: Attempt


def values(records: Sequence[dict[str, Any]]) -> list[Any]:
    return [record["value"] for record in records]


def refused(words: str, attempt: Callable[[], object]) -> None:
    """The client must report an error that has these words, however its library spells them."""
    got = ""
    try:
        attempt()
    except ClientFailure as error:
        got = str(error)
    assert got, f"expected an error like {words!r}, the client reported none"
    assert re.search(words, re.sub(r"[^a-z]", "", got.lower())), f"expected an error like {words!r}, got: {got}"


def until(condition: Callable[[], Any], what: str) -> Any:
    """The condition itself may wait."""
    return wait_until(condition, what, STEP_QUIET_S)
