"""Checks that the records of a producer's batch are what its header says: offsets 0, 1, 2 .. and nothing torn.

Owns: the walk over a body, without building objects, and the range of the records' times, which the header must tell
too. Kafka's LogValidator checks the same. With a wrong batch, consumers would skip or repeat records. As in Kafka, the
names of headers may be any bytes. The number of headers has a limit, because a header can take two bytes, and a walk in
Python takes 0.2 us for each.

Most loads write records of one size. In a run of such records each byte of structure is at the same place in every
record. So a run is checked in columns. Measured: 4 us for the 150 records of 16 KB (15 to 30 ns per record). One by one
it is 0.45 us per record.

If the compiled part was built (_record_check.c), it checks the body first. It says yes or no, in 6 ns per record of any
size. After a no, the walk here decides and makes the error. The limits on records and headers bound that walk too. So
both paths refuse the same bytes with the same text.
Shown by tests/broker_wire/test_wire_record_check.py, which compares both with the decoder, and test_wire_compiled.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import TypeAlias

from broker.wire.compression import Buffer
from broker.wire.errors import CorruptBatchError, UnpackedTooBigError
from broker.wire.varints import VARINTS, decode_varint, varint

Times: TypeAlias = tuple[int, int]  # the lowest and the highest timestamp delta of the records of a batch, in ms
TimesOfSound: TypeAlias = Callable[[Buffer, int, int], Times | None]

# If it is not empty in a broker's environment, that broker does not use the compiled part.
PURE_VARIABLE = "KAFKA_HARNESS_PURE"

# In one batch. The first is above the number of records in 1 MiB, even if each record has only a value of 10 bytes.
RECORDS_MAX = 1 << 16
# Ten times as many as 1 MiB of records has if each of them has a header of a trace (about 80 bytes).
HEADERS_MAX = 1 << 17
RUN_MIN = 8  # With fewer records, columns cost more than they save.
_KNOWN = len(VARINTS)
_DELTAS_END = (64, 8_192, 1 << 17)  # offset deltas below these numbers take one, two, three bytes
_CONTINUES = bytes(byte >> 7 for byte in range(256))  # 1 if another byte of the varint follows
_HEADERS_MIN_BYTES = 2  # the length of a name and that of a value
TIME_MIN, TIME_MAX = -(2**63), 2**63 - 1
_TIME_BYTES_MAX = 9  # so many bytes of a varint hold no more than 63 bits


def _built() -> TimesOfSound | None:
    """The compiled check. None: there was no C compiler at the installation."""
    try:
        from broker.wire._record_check import times_of_sound
    except ImportError:
        return None
    return times_of_sound


_times_of_sound = _built()  # None: only the Python code below checks


def use_compiled(wanted: bool) -> bool:
    """For entry points and tests: whether the compiled part may be used from now on. Returns whether it is."""
    global _times_of_sound
    _times_of_sound = _built() if wanted else None
    return _times_of_sound is not None


def check_records(body: Buffer, count: int) -> Times:
    """Returns the range of the records' times. Raises CorruptBatchError unless `body` is exactly `count` (at least one)
    whole records with the offset deltas 0 to count - 1, and UnpackedTooBigError if they have more than HEADERS_MAX
    headers."""
    times = None if _times_of_sound is None else _times_of_sound(body, count, HEADERS_MAX)
    return walk_records(bytes(body), count) if times is None else times


def walk_records(body: bytes, count: int) -> Times:
    """`check_records` without the compiled part."""
    position = index = retry_at = headers = 0
    pause = RUN_MIN  # after an attempt without a run, this many records pass before columns are tried again
    ranges: list[int] = []
    try:
        while index < count:
            start, may_run = position, index >= retry_at and count - index >= RUN_MIN
            if may_run:
                if run := _plain_run(body, start, index, count):
                    position, index, times = run
                    ranges += times
                    continue
                pause, retry_at = 2 * pause, index + pause
            position, time, of_record = _check_record(body, start, index, HEADERS_MAX - headers)
            ranges.append(time)
            index += 1
            headers += of_record
            # The next run begins like this one did: with the same length.
            if may_run and body.startswith(body[start : start + 2], position):
                most = min(count, index + (HEADERS_MAX - headers) // of_record) if of_record else count
                length, run_times = _run_length(body, start, position - start, index, most)
                ranges += run_times
                position += length * (position - start)
                index += length
                headers += length * of_record
                if length >= RUN_MIN:
                    pause, retry_at = RUN_MIN, index
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(f"record {index} of a batch is torn: {error}") from error
    if position != len(body):
        raise CorruptBatchError(f"{len(body) - position} bytes after the last of {count} records")
    if not ranges:
        raise CorruptBatchError(f"a batch of {count} records, expected at least one")
    return min(ranges), max(ranges)


def record_heads(body: Buffer, count: int) -> Iterator[tuple[int, int, bool]]:
    """(timestamp delta, offset delta, has a key) of each record. Keys, values and headers are not read. Raises
    CorruptBatchError at a record that ends after the body; a body that `check_records` passed has none."""
    position, end = 0, len(body)
    try:
        for _ in range(count):
            size, position = decode_varint(body, position)
            if not 0 <= size <= end - position:
                raise CorruptBatchError(f"a record of {size} bytes ends after its batch of {end} bytes")
            time, delta_at = decode_varint(body, position + 1)
            delta, key_at = decode_varint(body, delta_at)
            yield time, delta, not decode_varint(body, key_at)[0] < 0
            position += size
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(f"a record is torn: {error}") from error


def _check_record(body: bytes, position: int, index: int, headers_max: int = HEADERS_MAX) -> tuple[int, int, int]:
    """Check one record. Returns where it ends, its timestamp delta, and how many headers it has. Varints of one and two
    bytes are read inline, which halves the time."""
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
    if (byte := body[position - 1]) < 0x80:
        time = (byte >> 1) ^ -(byte & 1)
    else:
        time, position = decode_varint(body, position - 1)
        if not TIME_MIN <= time <= TIME_MAX:
            raise CorruptBatchError(f"record {index} has the timestamp delta {time}: expected one of 64 bits")
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
    headers = 0
    if body[position]:
        headers, position = _check_headers(body, position, end, headers_max)
    else:
        position += 1
    if position != end:
        raise CorruptBatchError(f"record {index} ends at byte {position}, its length says {end}")
    return end, time, headers


def _check_headers(body: bytes, position: int, end: int, count_max: int) -> tuple[int, int]:
    """How many there are, and where they end. Lengths of one byte are read inline, which halves the time."""
    count, position = decode_varint(body, position)
    if not 0 <= count <= (end - position) // _HEADERS_MIN_BYTES:
        raise CorruptBatchError(f"a record claims {count} headers")
    if count > count_max:
        raise UnpackedTooBigError(f"The batch holds more than {HEADERS_MAX} headers")
    for _ in range(count):
        if (byte := body[position]) < 0x80 and not byte & 1:
            position += 1 + (byte >> 1)
        else:
            size, position = decode_varint(body, position)
            if size < 0:
                raise CorruptBatchError("a header without a name")
            position += size
        if (byte := body[position]) < 0x80:
            position += 1 + (0 if byte & 1 else byte >> 1)
        else:
            size, position = decode_varint(body, position)
            position += max(0, size)
    return count, position


# -- runs of records of one size


def _plain_run(body: bytes, start: int, index: int, count: int) -> tuple[int, int, Times] | None:
    """The end of the run that begins with this record, the index of the record after it, and the range of its times.

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
    return end, index + run, _times_of([body[at:end:size] for at in range(time_at, delta_at)])


def _times_of(columns: Sequence[bytes]) -> Times:
    """The lowest and the highest of varints of equal size: the first byte of each, the second byte of each, and so
    on."""
    low, *others = columns
    numbers: Collection[int] = set(low) if not others else [byte & 0x7F for byte in low]
    for place, column in enumerate(others, start=1):
        numbers = [number | (byte & 0x7F) << 7 * place for number, byte in zip(numbers, column, strict=True)]
    signed = [(number >> 1) ^ -(number & 1) for number in set(numbers)]
    return min(signed), max(signed)


def _is_one_low_byte(column: bytes, count: int) -> bool:
    return column[0] < 0x80 and column == column[:1] * count


def _run_length(body: bytes, start: int, size: int, index: int, count: int) -> tuple[int, Sequence[int]]:
    """How many of the following records have the same structure, byte by byte, as the record at `start`, and the range
    of their times (empty for no records). `index` is the index of the first of them."""
    same, time_at, delta_at, key_at = _structure(body, start)
    if key_at - delta_at > len(_DELTAS_END) or delta_at - time_at > _TIME_BYTES_MAX:
        return 0, ()
    columns = _delta_columns(key_at - delta_at)
    first = start + size
    run = min(count - index, len(columns[0]) - index, (len(body) - first) // size)
    if run < 1:
        return 0, ()
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
    if run < 1:
        return 0, ()
    return run, _times_of([body[at + size : end : size] for at in range(time_at, delta_at)])


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
