"""The compiled record check and the walk in Python agree on all bytes, and the former reads none behind its body."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.wire.errors import CorruptBatchError, UnpackedTooBigError
from broker.wire.record_check import HEADERS_MAX, TIME_MAX, TIME_MIN, Times, _check_record, walk_records
from broker.wire.varints import encode_varint
from tests.amount import examples
from tests.patience import run_command

SOURCE = Path(__file__).resolve().parents[2] / "broker" / "wire" / "_record_check.c"
EXTREMES = (0, -1, 1, 63, 64, -64, -65, 8191, 8192, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))

pytestmark = pytest.mark.usefixtures("compiled_part")


def sound(body: bytes | bytearray | memoryview, count: int, headers_max: int = HEADERS_MAX) -> Times | None:
    from broker.wire import _record_check

    return _record_check.times_of_sound(body, count, headers_max)


def walks(body: bytes, count: int) -> Times | None:
    try:
        return walk_records(body, count)
    except CorruptBatchError:
        return None


def walks_one_by_one(body: bytes, count: int) -> Times | None:
    position, headers, times = 0, HEADERS_MAX, []
    try:
        for index in range(count):
            position, time, of_record = _check_record(body, position, index, headers)
            times.append(time)
            headers -= of_record
    except (CorruptBatchError, IndexError, ValueError):
        return None
    return (min(times), max(times)) if times and position == len(body) else None


def assert_all_agree(body: bytes, count: int) -> bool:
    """The verdict, which is the same for all, as are the times."""
    times = sound(body, count)
    assert walks(body, count) == times, (body.hex(), count)
    assert walks_one_by_one(body, count) == times, (body.hex(), count)
    return times is not None


@st.composite
def varints(draw: st.DrawFn, usual: int) -> bytes:
    """`usual` as it should be, mostly; else an extreme, in more bytes than needed, of 70 bits, or without an end."""
    kind = draw(st.sampled_from(("usual",) * 12 + ("extreme", "long", "wide", "endless")))
    if kind == "extreme":
        return encode_varint(draw(st.sampled_from(EXTREMES)))
    if kind == "long":
        encoded = encode_varint(usual)
        spare = draw(st.integers(0, 10 - len(encoded)))
        return encoded[:-1] + bytes([encoded[-1] | 0x80]) + b"\x80" * spare + b"\x00"
    if kind == "wide":  # ten bytes, whose last has bits beyond 64
        first = draw(st.integers(0x80, 0xFF))
        return bytes([first]) + b"\x80" * 8 + bytes([draw(st.integers(0, 0x7F))])
    if kind == "endless":
        return b"\x80" * draw(st.integers(9, 12)) + b"\x00"
    return encode_varint(usual)


@st.composite
def sized(draw: st.DrawFn, *, may_be_null: bool = True) -> bytes:
    if may_be_null and draw(st.booleans()):
        return encode_varint(-1)
    content = bytes(draw(st.sampled_from((0, 1, 5, 61, 64, 200))))
    return draw(varints(len(content))) + content


@st.composite
def records(draw: st.DrawFn, index: int) -> bytes:
    headers = draw(st.sampled_from((0, 0, 0, 1, 3)))
    rest = b"".join(
        (
            b"\x00",
            draw(varints(draw(st.sampled_from((0, 1, 63, 64, 10**6))))),
            draw(varints(index)),
            draw(sized()),
            draw(sized()),
            draw(varints(headers)),
            *(draw(sized(may_be_null=False)) + draw(sized()) for _ in range(headers)),
        )
    )
    return draw(varints(len(rest))) + rest


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, int]:
    """Records, one of them perhaps repeated as a run (with its offset deltas), then cut or changed somewhere."""
    parts: list[bytes] = []
    for _ in range(draw(st.integers(1, 4))):
        parts.append(draw(records(len(parts))))
    if draw(st.booleans()):
        value = draw(sized())
        for _ in range(draw(st.sampled_from((8, 30, 70)))):
            rest = b"\x00\x00" + encode_varint(len(parts)) + b"\x01" + value + b"\x00"
            parts.append(encode_varint(len(rest)) + rest)
    body = bytearray(b"".join(parts))
    for _ in range(draw(st.sampled_from((0, 0, 1, 2)))):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    if draw(st.integers(0, 4)) == 0:
        del body[draw(st.integers(0, len(body))) :]
    return bytes(body), len(parts) + draw(st.sampled_from((0, 0, 0, 0, 1, -1)))


@pytest.mark.thorough
@settings(max_examples=examples(300))
@given(bodies())
def test_both_say_the_same_of_records_with_any_varints(case: tuple[bytes, int]) -> None:
    assert_all_agree(*case)


@settings(max_examples=examples(500))
@given(st.binary(max_size=60), st.integers(-2, 9))
@example(b"", 0)
@example(b"", -1)
@example(b"\x80" * 9 + b"\x02" + b"\x00" * 6, 1)  # 2 ** 63, which is 0 in 64 bits
def test_both_say_the_same_of_any_bytes(body: bytes, count: int) -> None:
    if count < 0:
        assert sound(body, count) is None, "no batch has fewer than no records: the walk decides"
    else:
        assert_all_agree(body, count)


FIELDS = ("length", "time", "delta", "key", "value", "headers", "name", "content")


@pytest.mark.parametrize("field", FIELDS)
def test_every_varint_may_be_of_any_form(field: str) -> None:
    """One record with a header, and one varint of it replaced; the length is right for what stands there."""
    forms = [encode_varint(value) for value in EXTREMES]
    forms += [b"\x80" * size + b"\x00" for size in range(1, 12)]
    forms += [b"\x82" + b"\x80" * size + b"\x00" for size in range(12)]
    forms += [bytes([first]) + b"\x80" * 8 + bytes([last]) for first in (0x80, 0x81) for last in range(128)]
    # What 64 bits would hold is the right value; there is more above them.
    forms += [bytes([2 * usual | 0x80]) + b"\x80" * 8 + bytes([last]) for usual in range(20) for last in (1, 2, 64)]
    verdicts = set()
    for form in [*forms, encode_varint(2)]:

        def put(name: str, usual: int, form: bytes = form) -> bytes:
            return form if name == field else encode_varint(usual)

        key, value = put("key", 1) + b"k", put("value", 2) + b"vv"
        header = put("name", 1) + b"h" + put("content", 1) + b"c"
        rest = b"\x00" + put("time", 5) + put("delta", 0) + key + value + put("headers", 1) + header
        verdicts.add(assert_all_agree(put("length", len(rest)) + rest, 1))
    assert False in verdicts
    assert True in verdicts or field in ("length", "name", "delta"), "these have one value that fits"


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8_191, 8_192, 8_193, 65_536])
def test_both_count_across_each_width_of_an_offset_delta(count: int) -> None:
    parts = []
    for index in range(count):
        rest = b"\x00\x00" + encode_varint(index) + b"\x01\x01\x00"
        parts.append(encode_varint(len(rest)) + rest)
    body = b"".join(parts)
    assert assert_all_agree(body, count)
    assert not assert_all_agree(body + parts[-1], count + 1)


def test_every_kind_of_buffer_is_read_in_place() -> None:
    rest = b"\x00\x00\x00\x01\x01\x00"
    body = encode_varint(len(rest)) + rest
    around = memoryview(bytearray(b"\x7f" + body + b"\x7f"))
    for each in (body, bytearray(body), memoryview(body), around[1:-1], around[1:-1].toreadonly()):
        assert sound(each, 1) == (0, 0)
    assert sound(around, 1) is None
    with pytest.raises(BufferError):
        sound(memoryview(b"".join(bytes((byte, 0)) for byte in body))[::2], 1)
    for wrong in ((body, "1", 1), ("text", 1, 1), (body, 1), (body, 1, 1, 1), (body, 1, "1")):
        with pytest.raises(TypeError):
            _times_of_sound(*wrong)
    with pytest.raises(OverflowError):
        sound(body, 2**63)


def _times_of_sound(*arguments: object) -> object:
    from broker.wire import _record_check

    return _record_check.times_of_sound(*arguments)  # type: ignore[call-arg, arg-type]


def _body(times: list[int], *, headers: int = 0) -> bytes:
    parts = []
    for index, time in enumerate(times):
        rest = b"\x00" + encode_varint(time) + encode_varint(index) + b"\x01\x01" + encode_varint(headers)
        rest += b"\x00\x00" * headers
        parts.append(encode_varint(len(rest)) + rest)
    return b"".join(parts)


@given(st.lists(st.one_of(st.integers(-70, 70), st.integers(-9_000, 9_000), st.sampled_from((TIME_MIN, TIME_MAX)))))
@example([*range(100, 200), -(2**40), *range(-50, 50)])
@example([TIME_MIN] * 20 + [TIME_MAX] * 20)
def test_both_tell_the_lowest_and_the_highest_time(times: list[int]) -> None:
    expected = (min(times), max(times)) if times else None
    assert sound(_body(times), len(times)) == expected
    assert assert_all_agree(_body(times), len(times)) is bool(times)


@pytest.mark.parametrize("at", [0, 5, 29])
def test_a_time_of_more_than_64_bits_is_refused_wherever_it_stands(at: int) -> None:
    body = bytearray(_body([TIME_MIN] * 30))
    highest = at * len(body) // 30 + 11  # after length and attributes, the last of ten bytes
    assert body[highest] == 1
    assert assert_all_agree(bytes(body), 30)
    body[highest] = 2
    assert not assert_all_agree(bytes(body), 30)


@pytest.mark.parametrize("records", [1, 2, 64])
def test_both_count_headers_up_to_the_same_limit(records: int) -> None:
    most = HEADERS_MAX // records
    assert assert_all_agree(_body([0] * records, headers=most), records)
    assert not assert_all_agree(_body([0] * records, headers=most + 1), records)
    with pytest.raises(UnpackedTooBigError, match="more than 131072 headers"):
        walk_records(_body([0] * records, headers=most + 1), records)


def test_the_compiled_part_is_of_this_source() -> None:
    from broker.wire import _record_check

    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()
    assert digest == _record_check.SOURCE_SHA256, "built from another state of the source: make setup"


@pytest.mark.slow
def test_no_byte_behind_the_body_is_read() -> None:
    """In a process of its own: bodies end where the next page may not be read, so that one byte too far ends it."""
    done = run_command([sys.executable, "-c", GUARDED], cwd=SOURCE.parents[2])
    assert (done.returncode, done.stdout.strip()) == (0, "as told, all"), done.stderr[-2_000:]


GUARDED = """
import ctypes, mmap, random, sys
from broker.wire._record_check import times_of_sound
from broker.wire.varints import encode_varint

PAGES, PAGE = 4, mmap.PAGESIZE
area = mmap.mmap(-1, (PAGES + 1) * PAGE)
base = ctypes.addressof(ctypes.c_char.from_buffer(area))
forbid = ctypes.CDLL(None, use_errno=True).mprotect
assert forbid(ctypes.c_void_p(base + PAGES * PAGE), ctypes.c_size_t(PAGE), 0) == 0  # PROT_NONE
view = memoryview(area)[: PAGES * PAGE]

def ask(body, count):
    at = PAGES * PAGE - len(body)
    view[at:] = body
    return times_of_sound(view[at:], count, 1 << 17)

rng = random.Random(5)
bodies = []
for headers in (0, 2):
    parts = []
    for index in range(90):
        rest = b"\\0" + encode_varint(index * 10) + encode_varint(index) + b"\\x02k" + encode_varint(70) + bytes(70)
        rest += encode_varint(headers) + b"\\x02h\\x02v" * headers
        parts.append(encode_varint(len(rest)) + rest)
    bodies.append(b"".join(parts))
    assert ask(bodies[-1], 90)
for body in bodies:
    for end in range(len(body)):
        assert not ask(body[:end], 90)
    for _ in range(20_000):
        changed = bytearray(body[: rng.randrange(1, 300)])
        for _ in range(rng.randrange(4)):
            changed[rng.randrange(len(changed))] = rng.choice((0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)))
        ask(changed, rng.choice((1, 2, 90, 2**62)))
for _ in range(20_000):
    ask(bytes(rng.choice((0, 2, 12, 0x80, 0xff, rng.randrange(256))) for _ in range(rng.randrange(40))), 2**31)
print("as told, all")
"""
