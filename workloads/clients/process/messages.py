"""The lines of the client protocol: events that a client writes, commands that it reads, and their bounds.

Owns the vocabulary of docs/reference/client-protocol.md, and knows neither processes nor time. Fields that it does not
know are left out, as the page promises. Shown by tests/workloads/test_workloads_process_conversation.py.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

PROTOCOL: Final = 1
LINE_BYTES_MAX: Final = 8 << 20  # with the end of the line: a fetch of one record of 1 MiB, and much more, fits in
PRODUCE_RECORDS_MAX: Final = 1_000
CALLERS_MAX: Final = 16  # of one produce command
PRODUCE_BYTES_MAX: Final = 1 << 20  # keys and values of one command, but one record may be larger
POLL_RECORDS_MAX: Final = 5_000
EVENT_RECORDS_MAX: Final = 10_000
IN_FLIGHT_MAX: Final = 10_000  # records without an outcome, unless `ready` says another number
ANY_PROPERTY: Final = "*"
EARLIEST: Final = -2  # offsets of `assign`, as in Kafka's ListOffsets
LATEST: Final = -1
UNKNOWN_OFFSET: Final = -1  # An acknowledged record has it if the library does not tell its offset.


class Ability(StrEnum):
    """The words of `can`, in the order in which tables show them."""

    PRODUCE = "produce"
    PARTITION = "partition"
    HEADERS = "headers"
    CALLERS = "callers"
    ASSIGN = "assign"
    SUBSCRIBE = "subscribe"
    SEEK = "seek"
    PAUSE = "pause"
    COMMIT = "commit"
    ONE_BY_ONE = "one-by-one"
    TRANSACTIONS = "transactions"
    SEND_OFFSETS = "send-offsets"
    SHARE = "share"
    OVERLAP = "overlap"
    CANCEL = "cancel"
    FRAMES = "frames"


# What a command needs; a command with several words needs one of them.
NEEDS: Final[Mapping[str, tuple[Ability, ...]]] = {
    "produce": (Ability.PRODUCE,),
    "flush": (Ability.PRODUCE,),
    "assign": (Ability.ASSIGN,),
    "subscribe": (Ability.SUBSCRIBE, Ability.SHARE),
    "poll": (Ability.ASSIGN, Ability.SUBSCRIBE, Ability.SHARE),
    "seek": (Ability.SEEK,),
    "pause": (Ability.PAUSE,),
    "resume": (Ability.PAUSE,),
    "commit": (Ability.COMMIT,),
    "begin": (Ability.TRANSACTIONS,),
    "commit-transaction": (Ability.TRANSACTIONS,),
    "abort-transaction": (Ability.TRANSACTIONS,),
    "send-offsets": (Ability.SEND_OFFSETS,),
    "share-acknowledge": (Ability.SHARE,),
    "cancel": (Ability.CANCEL,),
}
_ANSWERS: Final[Mapping[str, str]] = {"poll": "polled", "commit": "committed"}  # all others: done
Role = Literal["producer", "consumer", "copier", "sharer"]


def answer_of(do: str) -> str:
    """The event that answers this command, if nothing is wrong."""
    return _ANSWERS.get(do, "done")


# --- events -----------------------------------------------------------------------------------------------------------


def _bytes_of(value: object) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"must be base64 or null, not {type(value).__name__}")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f"is no base64: {error}") from error


Base64 = Annotated[bytes | None, BeforeValidator(_bytes_of)]
_Seq = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
_Partition = Annotated[int, Field(ge=0, lt=1 << 31)]
_Offset = Annotated[int, Field(ge=0, lt=1 << 63)]
_AtUs = Annotated[int, Field(ge=0, lt=1 << 63)]
_Code = Annotated[int, Field(ge=-1, lt=1 << 15)]


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class TopicPartition(_Shape):
    topic: str
    partition: _Partition

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition


class Position(TopicPartition):
    offset: _Offset


class Properties(_Shape):
    producer: tuple[str, ...] = Field(default=(), strict=False)
    consumer: tuple[str, ...] = Field(default=(), strict=False)


class Ready(_Shape):
    event: Literal["ready"]
    protocol: int
    client: Annotated[str, Field(min_length=1, max_length=100)]
    version: str = ""
    can: Annotated[tuple[str, ...], Field(strict=False)]
    properties: Properties = Properties()
    in_flight_max: Annotated[int, Field(ge=1, le=1_000_000)] = IN_FLIGHT_MAX
    lacks: Mapping[str, str] = Field(default_factory=dict)
    exact_retries: bool = False

    def is_able(self, ability: Ability) -> bool:
        return ability in self.can

    def takes(self, side: Literal["producer", "consumer"], name: str) -> bool:
        names = getattr(self.properties, side)
        return ANY_PROPERTY in names or name in names


class Done(_Shape):
    event: Literal["done"]
    id: int
    at_us: _AtUs
    effective: Mapping[str, str] = Field(default_factory=dict)
    metrics: Mapping[str, float] = Field(default_factory=dict, strict=False)


class AcknowledgedRecord(_Shape):
    seq: _Seq
    sent_us: _AtUs
    partition: _Partition
    offset: Annotated[int, Field(ge=UNKNOWN_OFFSET, lt=1 << 63)]
    timestamp_ms: int = -1


class Acknowledged(_Shape):
    event: Literal["acknowledged"]
    at_us: _AtUs
    records: Annotated[tuple[AcknowledgedRecord, ...], Field(strict=False, min_length=1, max_length=EVENT_RECORDS_MAX)]


class OpenRecord(_Shape):
    seq: _Seq
    sent_us: _AtUs


class NotAcknowledged(_Shape):
    event: Literal["failed", "unknown"]
    at_us: _AtUs
    records: Annotated[tuple[OpenRecord, ...], Field(strict=False, min_length=1, max_length=EVENT_RECORDS_MAX)]
    code: _Code
    reason: str = ""


class Header(_Shape):
    key: str
    value: Base64 = None


class PolledRecord(_Shape):
    topic: str
    partition: _Partition
    offset: _Offset
    key: Base64 = None
    value: Base64
    timestamp_ms: int
    headers: Annotated[tuple[Header, ...], Field(strict=False)] = ()
    delivery_count: int = 1


class Polled(_Shape):
    event: Literal["polled"]
    id: int
    at_us: _AtUs
    records: Annotated[tuple[PolledRecord, ...], Field(strict=False, max_length=POLL_RECORDS_MAX)]


class Rebalanced(_Shape):
    event: Literal["assigned", "revoked", "lost"]
    at_us: _AtUs
    partitions: Annotated[tuple[TopicPartition, ...], Field(strict=False)]
    generation: int = -1


class Committed(_Shape):
    event: Literal["committed"]
    at_us: _AtUs
    partitions: Annotated[tuple[Position, ...], Field(strict=False)]
    id: int | None = None


class ShareRecord(TopicPartition):
    offset: _Offset
    type: Literal["accept", "release", "reject"]


class ShareAcknowledged(_Shape):
    event: Literal["share-acknowledged"]
    at_us: _AtUs
    records: Annotated[tuple[ShareRecord, ...], Field(strict=False)]
    code: _Code = 0
    reason: str = ""


class ErrorEvent(_Shape):
    event: Literal["error"]
    at_us: _AtUs
    reason: str
    id: int | None = None
    code: _Code = -1
    property: str | None = None
    next: Literal["retry", "abort", "close"] | None = None


class Fatal(_Shape):
    event: Literal["fatal"]
    at_us: _AtUs
    reason: str
    code: _Code = -1


Event = (
    Ready | Done | Acknowledged | NotAcknowledged | Polled | Rebalanced | Committed | ShareAcknowledged | ErrorEvent
    | Fatal
)  # fmt: skip
_EVENT: Final = TypeAdapter[Event](Annotated[Event, Field(discriminator="event")])


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAnEvent:
    """Why a line is no event: `is_json` or not, the field that is wrong, and what is wrong with it."""

    is_json: bool
    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason


def parse_event(line: bytes) -> Event | NotAnEvent:
    try:
        return _EVENT.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        # The first place is the word of the union, which the reader knows from the line.
        place = ".".join(str(part) for part in first["loc"][1:])
        return NotAnEvent(is_json=first["type"] != "json_invalid", field=place, reason=first["msg"])


# --- commands ---------------------------------------------------------------------------------------------------------


class OutRecord:
    """One record of `produce`, as it will stand in the line."""

    __slots__ = ("document", "seq", "size_bytes")

    def __init__(
        self, *, seq: int, value: bytes | None, key: bytes | None = None, partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:  # fmt: skip
        self.seq = seq
        self.size_bytes = len(value or b"") + len(key or b"")
        self.document: dict[str, Any] = {"seq": seq, "key": text_of(key), "value": text_of(value)}
        if partition is not None:
            self.document["partition"] = partition
        if headers:
            self.document["headers"] = [{"key": name, "value": text_of(content)} for name, content in headers]


def text_of(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode("ascii")


def partitions_of(positions: Mapping[tuple[str, int], int]) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "partition": partition, "offset": offset} for (topic, partition), offset in positions.items()
    ]


def command_line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def records_per_poll(record_size_bytes: int) -> int:
    """As many records of this size as surely fit into a line: base64 of key and value, and 250 bytes of names."""
    return max(1, min(POLL_RECORDS_MAX, (LINE_BYTES_MAX // 2) // (record_size_bytes * 4 // 3 + 250)))
