"""Whether the records of a producer's batch are what its header says: the offsets 0, 1, 2 .. and nothing torn.

Owns: the walk over a body without building anything of it. Kafka's LogValidator asks the same; a batch that lies here
would have consumers skip or repeat records. Most loads write records of one size, so a run of these is judged in
columns: each byte that is structure stands at the same place of every record (measured beside other load: 0.05 to
0.2 us a record in columns, 1 to 2 us one by one).
Shown by tests/broker_wire/test_wire_record_check.py, which compares it with the decoder.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from broker.wire.errors import CorruptBatchError
from broker.wire.varints import VARINTS, decode_varint, varint

RUN_MIN = 8  # records; for fewer, columns cost more than they save
_KNOWN = len(VARINTS)
_DELTAS_END = (64, 8_192, 1 << 17)  # below each, an offset delta takes one byte, two, three
_CONTINUES = bytes(byte >> 7 for byte in range(256))  # of a varint: another byte follows
_HEADERS_MIN_BYTES = 2  # a name's length and a value's


def check_records(body: bytes, count: int) -> None:
    """Raises CorruptBatchError unless `body` is exactly `count` whole records with the offset deltas 0 to count - 1."""
    position = index = retry_at = 0
    pause = RUN_MIN  # records after a run that was none, before columns are tried again
    try:
        while index < count:
            end = _check_record(body, position, index)
            size, start, position = end - position, position, end
            index += 1
            # The next one begins as this one did: with the same length.
            if count - index >= RUN_MIN and index >= retry_at and body.startswith(body[start : start + 2], end):
                run = _run_length(body, start, size, index, count)
                position += run * size
                index += run
                pause = RUN_MIN if run >= RUN_MIN else 2 * pause
                retry_at = index if run >= RUN_MIN else index + pause
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(f"record {index} of a batch is torn: {error}") from error
    if position != len(body):
        raise CorruptBatchError(f"{len(body) - position} bytes after the last of {count} records")


def record_heads(body: bytes, count: int) -> Iterator[tuple[int, bool]]:
    """(timestamp delta, has a key) of each record of a body that `check_records` passed."""
    position = 0
    for _ in range(count):
        size, position = decode_varint(body, position)
        time, delta_at = decode_varint(body, position + 1)
        _, key_at = decode_varint(body, delta_at)
        yield time, not decode_varint(body, key_at)[0] < 0
        position += size


def _check_record(body: bytes, position: int, index: int) -> int:
    """Where the record ends. Varints of one and two bytes are read inline: it halves the time."""
    if (byte := body[position]) < 0x80:
        size, position = (byte >> 1) ^ -(byte & 1), position + 1
    elif (second := body[position + 1]) < 0x80:
        size, position = (byte & 0x7F | second << 7) >> 1 if not byte & 1 else -1, position + 2
    else:
        size, position = decode_varint(body, position)
    end = position + size
    if size < 0 or end > len(body):
        raise CorruptBatchError(f"a record of {size} bytes ends after its batch of {len(body)} bytes")
    position += 2  # attributes, of which none are defined, and the first byte of the timestamp's delta
    if body[position - 1] > 0x7F:
        _, position = decode_varint(body, position - 1)
    delta = VARINTS[index] if index < _KNOWN else varint(index)
    if not body.startswith(delta, position):
        found, _ = decode_varint(body, position)
        raise CorruptBatchError(f"record {index} has the offset delta {found}: expected {index}")
    position += len(delta)
    if (byte := body[position]) == 1:  # no key
        position += 1
    else:
        size, position = decode_varint(body, position)
        position += size if size > 0 else 0
    if (byte := body[position]) < 0x80:
        position += 1 + (0 if byte & 1 else byte >> 1)
    elif (second := body[position + 1]) < 0x80 and not byte & 1:
        position += 2 + ((byte & 0x7F | second << 7) >> 1)
    else:
        size, position = decode_varint(body, position)
        position += size if size > 0 else 0
    position = _check_headers(body, position, end) if body[position] else position + 1
    if position != end:
        raise CorruptBatchError(f"record {index} ends at byte {position}, its length says {end}")
    return end


def _check_headers(body: bytes, position: int, end: int) -> int:
    count, position = decode_varint(body, position)
    if not 0 <= count <= (end - position) // _HEADERS_MIN_BYTES:
        raise CorruptBatchError(f"a record claims {count} headers")
    for _ in range(count):
        size, position = decode_varint(body, position)
        if size < 0:
            raise CorruptBatchError("a header without a name")
        size, position = decode_varint(body, position + size)
        position += max(0, size)
    return position


# -- runs of records of one size


def _run_length(body: bytes, start: int, size: int, index: int, count: int) -> int:
    """How many records follow that have the structure of the one at `start` byte by byte; `index` is the next one's."""
    same, time, delta = _structure(body, start)
    columns = _delta_columns(delta.stop - delta.start) if delta.stop - delta.start <= len(_DELTAS_END) else ()
    if not columns or index >= len(columns[0]):
        return 0
    first = start + size
    run = min(count - index, len(columns[0]) - index, (len(body) - first) // size)
    for column, at in zip(columns, delta, strict=True):
        run = _agreeing(_column(body, first + at, size, run), column[index : index + run])
    for at in same:
        run = _agreeing(_column(body, first + at, size, run), body[start + at : start + at + 1] * run)
    for at in time:
        follows = b"\x01" if at + 1 < time.stop else b"\x00"
        run = _agreeing(_column(body, first + at, size, run).translate(_CONTINUES), follows * run)
    return run


def _column(body: bytes, first: int, size: int, count: int) -> bytes:
    return body[first : first + size * count : size]


def _agreeing(found: bytes, expected: bytes) -> int:
    """How many bytes from the front are equal."""
    if found == expected:
        return len(found)
    difference = int.from_bytes(found, "big") ^ int.from_bytes(expected, "big")
    return len(found) - (difference.bit_length() + 7) // 8


def _structure(body: bytes, start: int) -> tuple[list[int], range, range]:
    """Of a checked record, counted from its start: the bytes that are lengths and counts, the timestamp's, the
    offset's."""
    _, position = decode_varint(body, start)
    same = list(range(position - start))
    _, end = decode_varint(body, position + 1)
    time = range(position + 1 - start, end - start)
    _, position = decode_varint(body, end)
    delta = range(end - start, position - start)

    def length(position: int) -> int:
        size, after = decode_varint(body, position)
        same.extend(range(position - start, after - start))
        return after + max(0, size)

    position = length(length(position))  # key, value
    count, after = decode_varint(body, position)
    same.extend(range(position - start, after - start))
    for _ in range(2 * count):
        after = length(after)
    return same, time, delta


@cache
def _delta_columns(width: int) -> tuple[bytes, ...]:
    """The bytes of all offset deltas that take so many: the first bytes of each, the second ones .."""
    end = _DELTAS_END[width - 1]
    last = width - 1
    return tuple(
        bytes([(2 * delta >> 7 * byte) & 0x7F | (0x80 if byte < last else 0) for delta in range(end)])
        for byte in range(width)
    )
