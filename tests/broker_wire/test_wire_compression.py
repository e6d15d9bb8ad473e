"""All codecs both ways, against other implementations, and what damaged or hostile data does."""

from __future__ import annotations

import gzip

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.compression import CodecId, codec_by_name, compress, decompress
from broker.wire.errors import CorruptBatchError, LocalProtocolError

REAL = [CodecId.GZIP, CodecId.SNAPPY, CodecId.LZ4, CodecId.ZSTD]
TEXT = b"".join(b'{"sensor":%d,"state":"ok"}' % number for number in range(20_000))
THEIR_DECODERS = {
    CodecId.GZIP: aiokafka_codec.gzip_decode,
    CodecId.SNAPPY: aiokafka_codec.snappy_decode,
    CodecId.LZ4: aiokafka_codec.lz4_decode,
    CodecId.ZSTD: aiokafka_codec.zstd_decode,
}
THEIR_ENCODERS = {
    CodecId.GZIP: aiokafka_codec.gzip_encode,
    CodecId.SNAPPY: aiokafka_codec.snappy_encode,
    CodecId.LZ4: aiokafka_codec.lz4_encode,
    CodecId.ZSTD: aiokafka_codec.zstd_encode,
}


@given(data=st.binary(max_size=2000), repeats=st.integers(1, 100), codec=st.sampled_from(list(CodecId)))
def test_every_codec_round_trips(data: bytes, repeats: int, codec: CodecId) -> None:
    assert decompress(codec, memoryview(compress(codec, data * repeats))) == data * repeats


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("level", [None, 1, 3, 9])
@pytest.mark.parametrize("codec", CodecId)
def test_any_buffer_is_compressed_at_any_level(codec: CodecId, level: int | None, kind: type) -> None:
    packed = compress(codec, kind(TEXT), level=level)
    assert decompress(codec, kind(packed)) == TEXT


@pytest.mark.parametrize("codec", REAL)
def test_others_read_what_we_write(codec: CodecId) -> None:
    assert bytes(THEIR_DECODERS[codec](compress(codec, TEXT))) == TEXT


@pytest.mark.parametrize("codec", REAL)
def test_we_read_what_others_write(codec: CodecId) -> None:
    assert decompress(codec, bytes(THEIR_ENCODERS[codec](TEXT))) == TEXT


def test_lz4_blocks_are_independent_and_carry_no_content_checksum() -> None:
    """Java rejects linked blocks. Byte 4 of the frame: bit 5 independent blocks, bit 2 content checksum."""
    flags = compress(CodecId.LZ4, TEXT)[4]
    assert flags & 0x20
    assert not flags & 0x04


def test_snappy_is_written_in_xerial_framing_and_raw_snappy_is_read() -> None:
    assert compress(CodecId.SNAPPY, TEXT).startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(CodecId.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_concatenated_gzip_members_are_read() -> None:
    assert decompress(CodecId.GZIP, gzip.compress(b"ab") + gzip.compress(b"cd")) == b"abcd"


@pytest.mark.parametrize("codec", REAL)
@pytest.mark.parametrize("raw", [False, True])
def test_bomb_is_refused(codec: CodecId, raw: bool) -> None:
    bomb = compress(codec, bytes(5_000_000))
    if raw and codec == CodecId.SNAPPY:
        bomb = bytes(cramjam.snappy.compress_raw(bytes(5_000_000)))
    assert len(decompress(codec, bomb, size_bytes_max=5_000_000)) == 5_000_000
    with pytest.raises(CorruptBatchError, match="more than 4999999"):
        decompress(codec, bomb, size_bytes_max=4_999_999)


@pytest.mark.parametrize("codec", REAL)
@pytest.mark.parametrize("size", [0, 1, 3, 20])
def test_torn_data_is_a_corrupt_batch(codec: CodecId, size: int) -> None:
    whole = compress(codec, TEXT)
    for data in (whole[:size] if size else b"\x13" * 40, whole[:-5]):
        with pytest.raises(CorruptBatchError):
            decompress(codec, data)


def test_names_are_those_of_compression_type() -> None:
    assert [codec_by_name(name) for name in ("none", "gzip", "snappy", "lz4", "zstd")] == list(CodecId)
    with pytest.raises(LocalProtocolError, match="brotli"):
        codec_by_name("brotli")
