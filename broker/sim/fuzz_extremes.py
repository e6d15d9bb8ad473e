"""Valid requests with extreme values, drawn from the schemas of every API and version. They can be decoded, but most
make no sense.

They have:

- empty values and the longest ones
- arrays of one element, of as many as are allowed, and of one more
- NaN and Infinity
- duplicates
- unknown enumerators and ids
- null where it is allowed
- the deepest nesting
- batches that unpack to far more than their size

The requests follow from a seed. The only knowledge about a broker is which names exist in it (`World`). With them,
requests get beyond the first check of a handler. Shown by tests/broker_sim/test_sim_fuzz_peers.py.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from broker.controller.topic_configs import TOPIC_SETTINGS
from broker.wire.apis import APIS, Api, ApiKey, Listener
from broker.wire.batch_encoder import encode_batch
from broker.wire.codec import encode_request
from broker.wire.compression import CodecId, compress
from broker.wire.errors import ErrorCode, LocalProtocolError
from broker.wire.messages import FieldShape, Message, field_shapes, request_type
from broker.wire.record_filter import with_body
from broker.wire.records import BATCH_OVERHEAD_BYTES, parse_batch_header

STRING_BYTES_MAX = 0x7FFF
DEPTH_MAX = 6
DISTINCT_MAX = 1_000  # to draw more would take longer than to refuse them
BIG_SHARE = 0.005  # share of requests with a very long field or array; they take a hundred times as long
COUNTS = (0, 1, 1, 1, 2, 3)
BIG_COUNTS = (100, 400, 900, 999, 1_000, 1_999, 4_000, 9_990, 10_001)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
_TEXTS = ("", "x", "-1", "0", "1", "a" * 249, "a" * 250, "..", "__consumer_offsets", "na\u00efve/..\x00", "\U0001f600")
_FLOATS = (0.0, -0.0, 1.0, 0.5, 1e9, -1.0, 1.7e308, 5e-324, float("inf"), float("-inf"), float("nan"))
_VALUES = (
    "",
    "0",
    "1",
    "-1",
    "true",
    "delete",
    "compact",
    "zstd",
    "producer",
    "CreateTime",
    "1048576",
    "9" * 30,
    "nan",
)
_ENDS = ("9" * 5_000, "\N{SNOWMAN}" * 10_922, "x" * STRING_BYTES_MAX)
# These settings would stop the test without a defect of the broker: nobody could connect, or each record would cost a
# sync of the disk.
_LEFT_ALONE = ("max.connection", "flush.", "log.flush")
_QUORUM = frozenset({ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH})


@dataclass(slots=True)
class World:
    """The names in the cluster that the fuzzer knows."""

    topics: list[str] = field(default_factory=lambda: ["plain", "compacted", "stamped"])
    topic_ids: list[UUID] = field(default_factory=list)
    brokers: int = 1
    cluster_id: str = "fuzz"


@cache
def _bomb(codec: CodecId, records: int) -> bytes:
    """A batch of that many equal records. Their offset deltas are wrong. A broker finds this only when it unpacks
    them."""
    one = encode_batch([b""], timestamps_ms=1, keys=[b"k"])[BATCH_OVERHEAD_BYTES:]
    header = parse_batch_header(encode_batch([b"v"], timestamps_ms=1, codec=codec))
    header = header._replace(record_count=records, last_offset_delta=records - 1)
    return with_body(header, compress(codec, one * records))


@cache
def _wide(codec: CodecId, size_bytes: int) -> bytes:
    return encode_batch([bytes(size_bytes)], timestamps_ms=1, codec=codec)


@cache
def _many(codec: CodecId, count: int) -> bytes:
    return encode_batch([b""] * count, timestamps_ms=1, keys=[b"k"] * count, codec=codec)


def _records(rng: random.Random, *, is_big: bool) -> bytes | None:
    if rng.random() < 0.05:
        return rng.choice((None, b"", rng.randbytes(rng.randrange(200))))
    codec = rng.choice(list(CodecId))
    if is_big:
        make, size = rng.choice(
            ((_bomb, 1_000_000), (_bomb, 65_536), (_wide, 900_000), (_wide, 17 << 20), (_many, 65_536), (_many, 65_537))
        )
        return make(codec, size) if codec is not CodecId.NONE or size < 500_000 else _many(codec, 30_000)
    count = rng.choice((1, 1, 2, 5, 70))
    return encode_batch(
        [rng.randbytes(rng.choice((0, 1, 40))) for _ in range(count)],
        keys=[rng.choice((None, b"", b"k")) for _ in range(count)],
        timestamps_ms=[rng.choice((0, 1, 1_700_000_000_000, 2**62, -1)) for _ in range(count)],
        codec=codec,
        producer_id=rng.choice((-1, -1, -1, 0, 1000, 2**62)),
        producer_epoch=rng.choice((-1, 0, 0, 32_767)),
        base_sequence=rng.choice((-1, 0, 0, 1, 2**31 - 1)),
        transactional=rng.random() < 0.1,
        control=rng.random() < 0.05,
    )


class Drawer:
    """Draws one message. Only one of its fields may be big, because a request with several big fields would be refused
    for its size."""

    def __init__(self, api: Api, version: int, world: World, rng: random.Random) -> None:
        self._api, self._version, self._world, self._rng = api, version, world, rng
        self._may_be_big = rng.random() < BIG_SHARE
        self.is_big = False
        self._is_quorum = api.key in _QUORUM

    def message(self) -> Message:
        return self._message(request_type(self._api.key, self._version), 0)

    def _takes_big(self, share: float) -> bool:
        if self._may_be_big and self._rng.random() < share:
            self._may_be_big, self.is_big = False, True
            return True
        return False

    def _message(self, message_type: Any, depth: int) -> Message:
        values: dict[str, Any] = {}
        for shape in field_shapes(message_type):
            values[shape.name] = self._field(shape, depth)
        return message_type(**values)

    def _field(self, shape: FieldShape, depth: int) -> Any:
        rng = self._rng
        if shape.nullable and rng.random() < 0.1:
            return None
        if not shape.is_array:
            return self._one(shape, depth)
        if depth >= DEPTH_MAX:
            return ()
        if self._takes_big(0.6):
            count = rng.choice(BIG_COUNTS)
            if count > DISTINCT_MAX or rng.random() < 0.5:  # either equal elements, or different ones
                return (self._one(shape, depth + 1),) * count
            return tuple(self._one(shape, depth + 1) for _ in range(count))
        items = [self._one(shape, depth + 1) for _ in range(rng.choice(COUNTS))]
        if items and rng.random() < 0.1:
            items.append(items[0])
        return tuple(items)

    def _one(self, shape: FieldShape, depth: int) -> Any:
        if shape.nested is not None:
            return self._message(shape.nested, depth + 1)
        kind, name, rng = shape.kafka_type, shape.name, self._rng
        if kind in _BITS:
            return self._integer(name, _BITS[kind], signed=kind.startswith("int"))
        if kind == "string":
            return self._text(name)
        if kind == "records":
            return _records(rng, is_big=self._takes_big(0.9))
        if kind == "bytes":
            return rng.randbytes(200_000 if self._takes_big(0.5) else rng.choice((0, 1, 20, 300)))
        if kind == "uuid":
            ids = self._world.topic_ids or [UUID(int=1)]
            return rng.choice((*ids, *ids, *ids, None, UUID(int=rng.getrandbits(128))))
        if kind.startswith("timedelta"):
            return timedelta(milliseconds=rng.choice((0, 0, 1, 50, 6_000, 30_000, 2**31 - 1, -1, -(2**31))))
        if kind == "datetime_i64":
            return datetime.fromtimestamp(rng.randrange(2**31), tz=UTC)
        if kind == "error_code":
            return rng.choice(list(ErrorCode))
        return rng.choice(_FLOATS) if kind == "float64" else rng.random() < 0.5

    def _integer(self, name: str, bits: int, *, signed: bool) -> int:
        rng = self._rng
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        if self._is_quorum and bits > 8:  # a vote for epoch 2^31 - 1 would be valid, but then there is no higher epoch
            return rng.choice((0, 1, 2, 3))
        if name == "broker_id" and self._api.listeners == frozenset({Listener.CONTROLLER}):
            return rng.choice((90, 90, 91, -1, high))  # a broker's own name could shut it down, which is no defect
        if name == "acks":
            return rng.choice((-1, -1, 0, 1, 1, 2))
        if name in ("resource_type", "config_operation"):
            return rng.choice((2, 2, 2, 4, 8, 16, 32, 0, 1, 3, high))
        if name in ("num_partitions", "count"):
            return rng.choice((-1, -1, 0, 1, 2, 3, 40, 10_001, high))
        if name in ("session_id", "session_epoch"):
            return rng.choice((0, 0, -1, 1, high))
        choice = rng.random()
        if choice < 0.7:
            return rng.choice((0, 0, 0, 1, 1, 2, 3, -1 if signed else 0))
        return rng.choice((low, high)) if choice < 0.9 else rng.randint(low, high)

    def _text(self, name: str) -> str:
        rng, world = self._rng, self._world
        if self._takes_big(0.5):
            return rng.choice(_ENDS)
        if rng.random() < 0.15:
            return rng.choice(_TEXTS)
        if name == "cluster_id":
            return world.cluster_id
        if name in ("group_id", "transactional_id", "member_id", "key", "group_instance_id"):
            return f"{name[0]}{rng.randrange(6)}"
        if name == "resource_name":
            return rng.choice((*world.topics, *map(str, range(1, world.brokers + 1)), ""))
        if self._api.key in (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS) and name in ("name", "topic_names"):
            return rng.choice((*_config_names(), f"made-{rng.randrange(8)}", f"made-{rng.randrange(8)}"))
        if name in ("name", "configuration_keys") and rng.random() < 0.5:
            return rng.choice(_config_names())
        if name == "value":
            return rng.choice(_VALUES)
        if name in ("entity_type", "match"):
            return rng.choice(("client-id", "client-id", "user", "ip"))
        if name in ("protocol_type", "protocol_name"):
            return rng.choice(("consumer", "range"))
        return rng.choice((*world.topics, "absent"))


@cache
def _config_names() -> tuple[str, ...]:
    return tuple(name for name in TOPIC_SETTINGS if not name.startswith(_LEFT_ALONE))


def listeners_of(api: Api) -> tuple[Listener, ...]:
    return tuple(
        each for each in (Listener.CLIENT, Listener.INTER_BROKER, Listener.CONTROLLER) if each in api.listeners
    )


def extreme_frame(world: World, rng: random.Random) -> tuple[str, Listener, bytes, bool]:
    """(API and version, the listener to send it to, the frame, whether it is big)."""
    while True:
        api = rng.choice(list(APIS.values()))
        version = rng.randint(api.min_version, api.max_version)
        drawer = Drawer(api, version, world, rng)
        client_id = rng.choice((None, "", "fuzz", "fuzz", "f" * 300))
        try:
            message = drawer.message()
            frame = b"".join(encode_request(api.key, version, rng.randrange(2**31), client_id, message))
        except (LocalProtocolError, OverflowError, ValueError):
            continue  # the drawn values do not fit this version's fields
        return f"{api.key.name} v{version}", rng.choice(listeners_of(api)), frame, drawer.is_big
