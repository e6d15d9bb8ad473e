"""Checks that the records of a producer's batch are what its header says: offsets 0, 1, 2 .. and nothing torn.

Owns: the walk over a body, without building objects. Kafka's LogValidator checks the same. With a wrong batch,
consumers would skip or repeat records.

Most loads write records of one size. In a run of such records each byte of structure is at the same place in every
record. So a run is checked in columns. Measured: 4 us for the 150 records of 16 KB (15 to 30 ns per record). One by one
it is 0.45 us per record.

If the compiled part was built (_record_check.c), it checks the body first. It says yes or no, in 6 ns per record of any
size. After a no, the walk here decides and makes the error. So both paths refuse the same bytes with the same text.
Shown by tests/broker_wire/test_wire_record_check.py, which compares both with the decoder, and test_wire_compiled.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeAlias

from broker.wire.compression import Buffer
from broker.wire.errors import CorruptBatchError
from broker.wire.varints import VARINTS, decode_varint, varint

IsSound: TypeAlias = Callable[[Buffer, int], bool]

# If it is not empty in a broker's environment, that broker does not use the compiled part.
PURE_VARIABLE = "KAFKA_HARNESS_PURE"

RUN_MIN = 8  # for fewer records, columns cost more than they save
_KNOWN = len(VARINTS)
_DELTAS_END = (64, 8_192, 1 << 17)  # offset deltas below these numbers take one, two, three bytes
_CONTINUES = bytes(byte >> 7 for byte in range(256))  # 1 if another byte of the varint follows
_HEADERS_MIN_BYTES = 2  # the length of a name and that of a value


def _built() -> IsSound | None:
    """The compiled check. None: there was no C compiler at the installation."""
    try:
        from broker.wire._record_check import is_sound
    except ImportError:
        return None
    return is_sound


_is_sound = _built()  # None: only the Python code below checks


def use_compiled(wanted: bool) -> bool:
    """For entry points and tests: whether the compiled part may be used from now on. Returns whether it is."""
    global _is_sound
    _is_sound = _built() if wanted else None
    return _is_sound is not None


def check_records(body: Buffer, count: int) -> None:
    """Raises CorruptBatchError unless `body` is exactly `count` whole records with the offset deltas 0 to count - 1."""
    if _is_sound is None or not _is_sound(body, count):
        walk_records(bytes(body), count)


def walk_records(body: bytes, count: int) -> None:
    """`check_records` without the compiled part."""
    position = index = retry_at = 0
    pause = RUN_MIN  # after an attempt without a run, this many records pass before columns are tried again
    try:
        while index < count:
            start, may_run = position, index >= retry_at and count - index >= RUN_MIN
            if may_run:
                if run := _plain_run(body, start, index, count):
                    position, index = run
                    continue
                pause, retry_at = 2 * pause, index + pause
            position = _check_record(body, start, index)
            index += 1
            # The next run begins like this one did: with the same length.
            if may_run and body.startswith(body[start : start + 2], position):
                length = _run_length(body, start, position - start, index, count)
                position += length * (position - start)
                index += length
                if length >= RUN_MIN:
                    pause, retry_at = RUN_MIN, index
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(f"record {index} of a batch is torn: {error}") from error
    if position != len(body):
        raise CorruptBatchError(f"{len(body) - position} bytes after the last of {count} records")


def record_heads(body: Buffer, count: int) -> Iterator[tuple[int, bool]]:
    """(timestamp delta, has a key) of each record of a body that `check_records` passed."""
    position = 0
    for _ in range(count):
        size, position = decode_varint(body, position)
        time, delta_at = decode_varint(body, position + 1)
        _, key_at = decode_varint(body, delta_at)
        yield time, not decode_varint(body, key_at)[0] < 0
        position += size


def _check_record(body: bytes, position: int, index: int) -> int:
    """Check one record. Returns where it ends. Varints of one and two bytes are read inline, which halves the time."""
    if (byte := body[position]) < 0x80:
        size, position = (byte >> 1) ^ -(byte & 1), position + 1
    elif (second := body[position + 1]) < 0x80:
        size, position = (byte & 0x7F | second << 7) >> 1 if not byte & 1 else -1, position + 2
    else:
        size, position = decode_varint(body, position)
    end = position + size
    if size < 0 or end > len(body):
        raise CorruptBatchError(f"a record of {size} bytes ends after its batch of {len(body)} bytes")
    position += 2  # attributes (none are defined) and the first byte of the timestamp's delta
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


def _plain_run(body: bytes, start: int, index: int, count: int) -> tuple[int, int] | None:
    """The end of the run that begins with this record, and the index of the record after it.

    The records of a run have the same first byte, and offset deltas of the same number of bytes. The result is None
    unless all of them agree and are of the most frequent kind: no headers, no key or a key below 64 bytes, and less
    than 8 KiB. `_run_length` finds the same, but takes three times as long.
    """
    if (byte := body[start]) < 0x80:
        time_at, size = start + 2, 1 + (byte >> 1)
    else:
        time_at, size = start + 3, 2 + ((byte & 0x7F | body[start + 1] << 7) >> 1)
    delta_at = time_at + 1 if body[time_at] < 0x80 else time_at + 2
    is_short = index < _DELTAS_END[0]
    low, *high = _delta_columns(1 if is_short else 2)
    key_at = delta_at + (1 if is_short else 2)
    value_at = key_at + 1 + (0 if (byte := body[key_at]) == 1 else byte >> 1)
    run = min(len(low) - index, count - index, (len(body) - start) // size)
    if run < RUN_MIN or body[start] & 1 or byte > 0x7F or (byte & 1 and byte != 1):
        return None
    found = body[start : start + size * run : size]
    if found != body[start : start + 1] * run and (run := _agreeing(found, body[start : start + 1] * run)) < RUN_MIN:
        return None
    last, end = start + size - 1, start + size * run
    if (byte := body[value_at]) < 0x80:
        ends_at = value_at + 1 + (byte >> 1)
    else:
        ends_at = value_at + 2 + ((byte & 0x7F | body[value_at + 1] << 7) >> 1)
        if not _is_one_low_byte(body[value_at + 1 : end : size], run):
            return None
    if (
        ends_at != last
        or byte & 1
        or body[last:end:size] != bytes(run)
        or (time_at - start == 3 and not _is_one_low_byte(body[start + 1 : end : size], run))
        or not body[delta_at - 1 : end : size].isascii()
        or (delta_at - time_at == 2 and body[time_at:end:size].translate(_CONTINUES) != b"\x01" * run)
        or body[delta_at:end:size] != low[index : index + run]
        or (high and body[delta_at + 1 : end : size] != high[0][index : index + run])
        or body[key_at:end:size] != body[key_at : key_at + 1] * run
        or body[value_at:end:size] != body[value_at : value_at + 1] * run
    ):
        return None
    return end, index + run


def _is_one_low_byte(column: bytes, count: int) -> bool:
    return column[0] < 0x80 and column == column[:1] * count


def _run_length(body: bytes, start: int, size: int, index: int, count: int) -> int:
    """How many of the following records have the same structure, byte by byte, as the record at `start`. `index` is the
    index of the first of them."""
    same, time_at, delta_at, key_at = _structure(body, start)
    if key_at - delta_at > len(_DELTAS_END):
        return 0
    columns = _delta_columns(key_at - delta_at)
    first = start + size
    run = min(count - index, len(columns[0]) - index, (len(body) - first) // size)
    if run < 1:
        return 0
    end = first + size * run  # end of the bytes to compare
    at = delta_at + size
    for column in columns:
        found = body[at:end:size]
        if found != (expected := column[index : index + run]):
            run = _agreeing(found, expected)
            end = first + size * run
        at += 1
    for at in same:
        found = body[at + size : end : size]
        if found != (expected := body[at : at + 1] * run):
            run = _agreeing(found, expected)
            end = first + size * run
    for at in range(time_at, delta_at):
        follows = at + 1 < delta_at  # another byte of the timestamp delta follows
        found = body[at + size : end : size]
        if follows or not found.isascii():
            run = _agreeing(found.translate(_CONTINUES), (b"\x01" if follows else b"\x00") * run)
            end = first + size * run
    return run


def _agreeing(found: bytes, expected: bytes) -> int:
    """The number of equal bytes at the beginning."""
    if found == expected:
        return len(found)
    difference = int.from_bytes(found, "big") ^ int.from_bytes(expected, "big")
    return len(found) - (difference.bit_length() + 7) // 8


def _structure(body: bytes, start: int) -> tuple[list[int], int, int, int]:
    """For a checked record: the positions of all bytes of lengths and counts, and where its timestamp delta, its offset
    delta and its key begin."""
    if body[start] < 0x80:
        same, time_at = [start], start + 2
    else:
        position = _varint_end(body, start)
        same, time_at = list(range(start, position)), position + 1
    delta_at = _varint_end(body, time_at)
    key_at = _varint_end(body, delta_at)
    position = _note_length(body, _note_length(body, key_at, same), same)  # key, value
    same.append(position)
    if body[position]:  # headers
        count, after = decode_varint(body, position)
        same.extend(range(position + 1, after))
        for _ in range(2 * count):
            after = _note_length(body, after, same)
    return same, time_at, delta_at, key_at


def _varint_end(body: bytes, position: int) -> int:
    while body[position] > 0x7F:
        position += 1
    return position + 1


def _note_length(body: bytes, position: int, same: list[int]) -> int:
    """Add the positions of the length at `position` to `same`. Returns the end of the field that has this length."""
    same.append(position)
    if (byte := body[position]) < 0x80:
        return position + 1 if byte & 1 else position + 1 + (byte >> 1)
    size, after = decode_varint(body, position)
    same.extend(range(position + 1, after))
    return after + max(0, size)


@cache
def _delta_columns(width: int) -> tuple[bytes, ...]:
    """The bytes of all offset deltas that take this many bytes: the first byte of each, then the second byte of each,
    and so on."""
    end = _DELTAS_END[width - 1]
    last = width - 1
    return tuple(
        bytes([(2 * delta >> 7 * byte) & 0x7F | (0x80 if byte < last else 0) for delta in range(end)])
        for byte in range(width)
    )
