"""The fast encoder for the records of a load generator: they have one size, no key and no headers.

All bytes around a value then depend only on its index, the value size and the timestamp delta. So they are made once
and kept as "heads". A batch is one join of kept heads and values. This encodes 20 to 50 million records of 100 bytes a
second, measured in runs; the general encoder of broker.wire encodes 8 million. The general encoder takes all other
records. Shown by tests/broker_client/test_client_encoding.py: the same bytes as broker.wire's encoder.
"""

from __future__ import annotations

from collections.abc import Sequence

import crc32c

from broker.client.core.batch import BATCH_HEADER_BYTES, Batch
from broker.wire.compression import CodecId, compress
from broker.wire.records import ATTRIBUTES_POSITION, BATCH_HEADER, LENGTH_OVERHEAD_BYTES
from broker.wire.varints import varint

TRANSACTIONAL_FLAG = 0x10

_KEPT_LISTS_MAX = 64  # lists of heads, one for each (value size, timestamp delta)
_HEADS_MAX = 16384  # records in a batch; the general encoder takes longer batches
_DELTA_MS_MAX = 8191  # two bytes of varint
_NULL_KEY = varint(-1)
_NO_HEADERS = b"\x00"

_heads: dict[tuple[int, int], list[bytes]] = {}


def uniform_body(values: Sequence[bytes | None], stamps: Sequence[tuple[int, int]]) -> bytes | None:
    """The records section, or None if the values differ in size or one is null. `stamps` has (first index, ms) for each
    group of consecutive records with the same ms."""
    count = len(values)
    first = values[0]
    if first is None or count > _HEADS_MAX:
        return None
    size = len(first)
    try:
        if sum(map(len, values)) != size * count or max(map(len, values)) != size:  # type: ignore[arg-type]  # None below
            return None
    except TypeError:
        return None  # one of the values is null
    base_ms = stamps[0][1]
    pieces: list[bytes | None] = [None] * (2 * count)
    pieces[1::2] = values
    for position, (start, stamp_ms) in enumerate(stamps):
        delta_ms = stamp_ms - base_ms
        if not 0 <= delta_ms <= _DELTA_MS_MAX:
            return None
        end = stamps[position + 1][0] if position + 1 < len(stamps) else count
        pieces[2 * start : 2 * end : 2] = _heads_of(size, delta_ms, end)[start:end]
    # Each head begins with the empty header list of the previous record. So it is cut from the first head, and one is
    # added after the last value.
    pieces[0] = pieces[0][1:]  # type: ignore[index]  # heads are never None
    pieces.append(_NO_HEADERS)
    return b"".join(pieces)  # type: ignore[arg-type]  # all filled


def _heads_of(size: int, delta_ms: int, count: int) -> list[bytes]:
    """At least `count` heads. A head is the end of the record before, then length, attributes, deltas, null key and
    value length.

    Sender threads of several producers share the kept lists. So a list that is in use never changes; a longer list
    replaces it. (Once, two threads extended the same list. They wrote wrong offset deltas, and records were out of
    order in a batch.)
    """
    key = (size, delta_ms)
    heads = _heads.get(key, [])
    if len(heads) < count:
        delta, value_size = varint(delta_ms), varint(size)
        heads = list(heads)
        for index in range(len(heads), min(_HEADS_MAX, max(count, 2 * len(heads)))):
            inner = b"\x00" + delta + varint(index) + _NULL_KEY + value_size
            heads.append(_NO_HEADERS + varint(len(inner) + size + 1) + inner)
        if len(_heads) >= _KEPT_LISTS_MAX:
            _heads.clear()
        _heads[key] = heads
    return heads


def with_header(batch: Batch, body: bytes, codec: CodecId, level: int | None) -> list[bytes]:
    """The buffers of the batch: the header and the (compressed) body."""
    if codec is not CodecId.NONE:
        body = compress(codec, body, level=level)
    count = batch.record_count
    header = bytearray(BATCH_HEADER_BYTES)
    length = BATCH_HEADER_BYTES - LENGTH_OVERHEAD_BYTES + len(body)
    first_ms, last_ms = batch.stamps[0][1], max(stamp_ms for _, stamp_ms in batch.stamps)
    producer = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    attributes = int(codec) | (TRANSACTIONAL_FLAG if batch.is_transactional else 0)
    fields = (attributes, count - 1, first_ms, last_ms, *producer, count)
    BATCH_HEADER.pack_into(header, 0, 0, length, -1, 2, 0, *fields)
    crc = crc32c.crc32c(body, crc32c.crc32c(memoryview(header)[ATTRIBUTES_POSITION:]))
    BATCH_HEADER.pack_into(header, 0, 0, length, -1, 2, crc, *fields)
    return [bytes(header), body]
