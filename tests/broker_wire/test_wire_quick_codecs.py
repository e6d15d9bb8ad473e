"""The quick ways decline or unpack what the general decoder unpacks, of frames of any producer and of damaged ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.wire import quick_codecs
from broker.wire.compression import CodecId, compress, decompress
from broker.wire.errors import CorruptBatchError, UnpackedTooBigError
from broker.wire.quick_codecs import pack_lz4, pack_zstd, unpack_lz4, unpack_zstd
from tests.amount import examples

ROOM_BYTES = 1 << 20
SIZES = (0, 1, 100, 65_535, 65_536, 65_537, 300_000)


def half_random(size: int) -> bytes:
    return (random.Random(size).randbytes(size // 2) + b"a" * size)[:size]


def quick_lz4(data: bytes, size_bytes_max: int = ROOM_BYTES) -> bytes | None:
    return unpack_lz4(data, size_bytes_max)


def quick_zstd(data: bytes) -> bytes | None:
    return unpack_zstd(data, ROOM_BYTES)


def general(module: object, data: bytes) -> bytes | None:
    target = bytearray(ROOM_BYTES)
    try:
        return bytes(target[: module.decompress_into(data, target)])  # type: ignore[attr-defined]
    except cramjam.DecompressionError:
        return None


def xxh32_of_few(data: bytes) -> int:
    """xxh32 of less than four bytes, by its specification."""
    mask, primes = 0xFFFFFFFF, (2654435761, 2246822519, 3266489917, 374761393)
    value = primes[3] + len(data)
    for byte in data:
        value = (value + byte * primes[3]) & mask
        value = ((value << 11 | value >> 21) & mask) * primes[0] & mask
    value = (value ^ value >> 15) * primes[1] & mask
    value = (value ^ value >> 13) * primes[2] & mask
    return value ^ value >> 16


def test_the_known_beginnings_have_the_right_checksums_and_sizes() -> None:
    for beginning, block_bytes in quick_codecs._LZ4_BEGINNINGS.items():
        assert beginning[6] == xxh32_of_few(beginning[4:6]) >> 8 & 0xFF
        assert block_bytes == 1 << 8 + 2 * (beginning[5] >> 4)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("content", [half_random, bytes, lambda size: random.Random(size).randbytes(size)])
def test_what_is_packed_is_unpacked_by_both(size: int, content: Callable[[int], bytes]) -> None:
    body = content(size)
    packed = pack_lz4(body)
    assert quick_lz4(packed) == body == general(cramjam.lz4, packed) == lz4.frame.decompress(packed)
    assert len(packed) <= size + 7 + 4 * (2 + size // 65_536), "what does not get smaller is stored"
    packed = pack_zstd(body, 3)
    assert quick_zstd(packed) == (body or None)
    assert general(cramjam.zstd, packed) == body


@pytest.mark.parametrize("level", [-7, 1, 3, 9, 12, 19])
def test_the_level_of_zstd_is_the_one_asked_for(level: int) -> None:
    body = b"".join(b"%d %d;" % (number, number * number) for number in range(3_000))
    packed = [pack_zstd(body, level) for _ in range(3)]
    assert packed[0] == packed[1] == packed[2] == zstandard.ZstdCompressor(level=level).compress(body)
    assert all(each <= quick_codecs._ZSTD_KEPT_LEVEL_MAX for each, _ in quick_codecs._PACKERS)


@pytest.mark.parametrize("block_bytes", [4, 5, 6, 7])
@pytest.mark.parametrize("size", SIZES)
def test_lz4_frames_of_independent_blocks_are_unpacked_quickly(block_bytes: int, size: int) -> None:
    frame = lz4.frame.compress(
        half_random(size), block_size=block_bytes, block_linked=False, store_size=False, content_checksum=False
    )
    assert quick_lz4(frame) == half_random(size)


@pytest.mark.parametrize(
    "options",
    [
        {"block_linked": True},
        {"block_linked": False, "store_size": True},
        {"block_linked": False, "block_checksum": True},
        {"block_linked": False, "content_checksum": True},
    ],
)
def test_other_lz4_frames_are_left_to_the_general_decoder(options: dict[str, bool]) -> None:
    frame = lz4.frame.compress(half_random(200_000), **{"store_size": False, **options})
    assert quick_lz4(frame) is None
    assert decompress(CodecId.LZ4, frame) == half_random(200_000)


def test_unusual_lz4_frames_are_declined() -> None:
    frame = pack_lz4(half_random(1_000))
    assert quick_lz4(frame, 999) is None, "too much"
    assert quick_lz4(frame, 1_000) == half_random(1_000)
    assert quick_lz4(frame + frame) is None
    assert quick_lz4(frame + b"\x00") is None
    beginning, stored_byte, end = frame[:7], (1 | 1 << 31).to_bytes(4, "little") + b"x", bytes(4)
    assert quick_lz4(beginning + stored_byte * 63 + end) == b"x" * 63
    assert quick_lz4(beginning + stored_byte * 64 + end) is None, "too many blocks for a quick look"
    assert decompress(CodecId.LZ4, beginning + stored_byte * 64 + end) == b"x" * 64
    big = pack_lz4(bytes(3 << 20))
    assert quick_lz4(big, 4 << 20) is None, "more than usual"
    assert decompress(CodecId.LZ4, big) == bytes(3 << 20)
    with pytest.raises(UnpackedTooBigError):
        decompress(CodecId.LZ4, frame, size_bytes_max=999)
    too_big = (65_537 | 1 << 31).to_bytes(4, "little") + bytes(65_537)
    assert quick_lz4(beginning + too_big + end) is None
    with pytest.raises(CorruptBatchError):
        decompress(CodecId.LZ4, beginning + too_big + end)


def streamed(body: bytes, **options: int) -> bytes:
    packer = zstandard.ZstdCompressor(write_content_size=False, **options).compressobj()
    return packer.compress(body) + packer.flush()


def test_zstd_frames_that_do_not_say_their_size_are_unpacked_quickly() -> None:
    """As Java's stream and librdkafka write them."""
    for body in (b"x", half_random(1_000), half_random(300_000), bytes(60_000), random.Random(1).randbytes(400_000)):
        for has_checksum in (0, 1):
            frame = streamed(body, write_checksum=has_checksum)
            assert zstandard.frame_content_size(frame) == -1
            assert quick_zstd(frame) == body
            assert quick_zstd(frame[:-1]) is None
            assert quick_zstd(frame + b"x") is None


def test_unusual_zstd_frames_are_declined_and_still_unpacked() -> None:
    frame, body = pack_zstd(half_random(1_000), 3), half_random(1_000)
    skipped = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    cases = {
        frame + frame: body + body,
        skipped + frame: body,
        frame + skipped: body,
        streamed(body) + streamed(body): body + body,
        streamed(body) + skipped: body,
        streamed(bytes(700_000)): bytes(700_000),  # far smaller than what it unpacks to
        pack_zstd(b"", 3): b"",
    }
    for packed, unpacked in cases.items():
        assert quick_zstd(packed) is None
        assert decompress(CodecId.ZSTD, packed) == unpacked


@pytest.mark.thorough
def test_a_zstd_frame_with_a_window_of_128_mb_is_declined_and_still_unpacked() -> None:
    packed, body = streamed(half_random(900_000), level=22), half_random(900_000)
    assert quick_zstd(packed) is None
    assert decompress(CodecId.ZSTD, packed) == body


def test_the_bound_holds_whatever_a_zstd_frame_says_of_its_size() -> None:
    for packed in (pack_zstd(bytes(5_000), 3), streamed(bytes(5_000)), streamed(half_random(5_000))):
        assert unpack_zstd(packed, 4_999) is None
        with pytest.raises(UnpackedTooBigError):
            decompress(CodecId.ZSTD, packed, size_bytes_max=4_999)
        assert len(decompress(CodecId.ZSTD, packed, size_bytes_max=5_000)) == 5_000
    packed = bytearray(pack_zstd(half_random(5_000), 3))
    assert packed[4] & 0xC0 == 0x40, "a size of two bytes, less 256"
    packed[5:7] = (1_000).to_bytes(2, "little")
    assert quick_zstd(bytes(packed)) is None
    with pytest.raises(CorruptBatchError):
        decompress(CodecId.ZSTD, bytes(packed))


@settings(max_examples=examples(400))
@given(
    data=st.data(),
    size=st.sampled_from((1, 30, 500, 70_000)),
    kind=st.sampled_from(("lz4", "zstd", "streamed", "checked")),
)
def test_a_damaged_frame_is_declined_or_unpacked_as_the_general_decoder_does(
    data: st.DataObject, size: int, kind: str
) -> None:
    body = half_random(size)
    packers = {
        "lz4": pack_lz4,
        "zstd": lambda body: pack_zstd(body, 3),
        "streamed": streamed,
        "checked": lambda body: zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compress(body),
    }
    frame = bytearray(packers[kind](body) * data.draw(st.sampled_from((1, 1, 2))))
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.one_of(st.integers(0, min(20, len(frame)) - 1), st.integers(0, len(frame) - 1)))
        frame[at] = data.draw(st.integers(0, 255))
    if data.draw(st.integers(0, 3)) == 0:
        del frame[data.draw(st.integers(0, len(frame))) :]
    quick = quick_lz4(bytes(frame)) if kind == "lz4" else quick_zstd(bytes(frame))
    if quick is not None:
        assert quick == general(cramjam.lz4 if kind == "lz4" else cramjam.zstd, bytes(frame))


def test_threads_do_not_disturb_one_another() -> None:
    bodies = [half_random(1_000 + 997 * number) for number in range(40)]

    def there_and_back(number: int) -> bool:
        body, codec = bodies[number % 40], (CodecId.LZ4, CodecId.ZSTD)[number % 2]
        return decompress(codec, compress(codec, body, level=(1, 2)[number % 3 == 0])) == body

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(there_and_back, range(2_000)))
    assert len(quick_codecs._UNPACKERS) <= 9, "at most one more than wanted per thread that met another"
