"""The four codecs of record batches, as Kafka's Java code reads and writes them.

Owns: details of framing, and a limit on the decompressed size. lz4 is written with independent blocks and no content
checksum, because Java rejects linked blocks ("Dependent block stream is unsupported"). snappy is written in xerial's
block format. Raw snappy, which librdkafka sends, is read too. quick_codecs.py handles the usual frames of lz4 and zstd.
Shown by tests/broker_wire/test_wire_compression.py.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import Any, TypeAlias

import cramjam

from broker.wire.errors import CorruptBatchError, LocalProtocolError, UnpackedTooBigError
from broker.wire.quick_codecs import pack_lz4, pack_zstd, unpack_lz4, unpack_zstd

Buffer: TypeAlias = bytes | bytearray | memoryview

# More than any sensible batch unpacks to (message.max.bytes is 1 MiB), and far less than a decompression bomb would
# need. It is the limit of producers (only if max.message.bytes is as large), of brokers and of consumers, so what one
# of them accepts the others can read.
DECOMPRESSED_BYTES_MAX = 64 << 20

# Java reads any number of gzip members or snappy blocks one after another. Producers write one member, and blocks of
# 32 KiB. To read a batch of empty members or blocks would take seconds, so their number has a limit.
GZIP_MEMBERS_MAX = 64
_XERIAL_BLOCK_BYTES_MIN = 1024

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_LZ4_THOROUGH_LEVEL_MIN = 3  # all lower levels give the same result
_SPARE_BYTES = 2 * 1024 * 1024  # nearly every batch unpacks to no more than this
_SPARES_MAX = 2
_SPARES: list[bytearray] = []  # targets that are not in use now


class CodecId(IntEnum):
    """The low three bits of a batch's attributes. The names are those of `compression.type`."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def codec_by_name(name: str) -> CodecId:
    try:
        return CodecId[name.upper()]
    except KeyError:
        raise LocalProtocolError(f"unknown compression.type {name!r}: use none, gzip, snappy, lz4 or zstd") from None


def compress(codec: CodecId, data: Buffer, *, level: int | None = None) -> bytes:
    """`level` applies to gzip (1-9), lz4 (1-17) and zstd (-7 to 22); Kafka's defaults are used if it is None."""
    if codec == CodecId.NONE:
        return bytes(data)
    if codec == CodecId.GZIP:
        packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
        return packer.compress(data) + packer.flush()
    if codec == CodecId.SNAPPY:
        return _compress_xerial(data)
    if codec == CodecId.LZ4:
        if level is None or level < _LZ4_THOROUGH_LEVEL_MIN:
            return pack_lz4(data)
        frame = cramjam.lz4.Compressor(level=level, block_linked=False, content_checksum=False)
        frame.compress(bytes(data))  # it takes no other buffer
        return bytes(frame.finish())
    return pack_zstd(data, 3 if level is None else level)


def decompress(codec: CodecId, data: Buffer, *, size_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Raises CorruptBatchError if the data is not valid for this codec, or would unpack to more than
    `size_bytes_max`."""
    try:
        if codec == CodecId.NONE:
            return bytes(data)
        if codec == CodecId.GZIP:
            return _decompress_gzip(bytes(data), size_bytes_max)
        if codec == CodecId.SNAPPY:
            return _decompress_snappy(bytes(data), size_bytes_max)
        if codec == CodecId.ZSTD:
            quick = unpack_zstd(data, size_bytes_max)
            return _decompress_stream(cramjam.zstd, data, size_bytes_max) if quick is None else quick
        quick = unpack_lz4(data, size_bytes_max)
        return _decompress_stream(cramjam.lz4, data, size_bytes_max) if quick is None else quick
    except (cramjam.DecompressionError, zlib.error, struct.error, OSError) as error:
        raise CorruptBatchError(f"{codec.name.lower()} data does not decompress: {error}") from error


def _too_big(size_bytes_max: int) -> UnpackedTooBigError:
    return UnpackedTooBigError(f"a batch decompresses to more than {size_bytes_max} bytes")


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: bytes, size_bytes_max: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _decompress_raw_snappy(data, size_bytes_max)
    parts: list[bytes] = []
    position, size_bytes = len(_XERIAL_HEADER), 0
    blocks_max = 64 + size_bytes_max // _XERIAL_BLOCK_BYTES_MIN
    while position < len(data):
        if len(parts) >= blocks_max:
            raise CorruptBatchError(f"snappy data of more than {blocks_max} blocks")
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if size < 0 or position + size > len(data):
            raise CorruptBatchError(f"a snappy block of {size} bytes ends after its batch")
        block = data[position : position + size]
        size_bytes += cramjam.snappy.decompress_raw_len(block)
        if size_bytes > size_bytes_max:
            raise _too_big(size_bytes_max)
        parts.append(bytes(cramjam.snappy.decompress_raw(block)))
        position += size
    return b"".join(parts)


def _decompress_raw_snappy(data: bytes, size_bytes_max: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(data) > size_bytes_max:
        raise _too_big(size_bytes_max)
    return bytes(cramjam.snappy.decompress_raw(data))


def _decompress_gzip(data: bytes, size_bytes_max: int) -> bytes:
    """Decompress all members of the data. Java reads concatenated members, so a peer may send them."""
    parts: list[bytes] = []
    left = size_bytes_max
    while data:
        if len(parts) >= GZIP_MEMBERS_MAX:
            raise CorruptBatchError(f"gzip data of more than {GZIP_MEMBERS_MAX} members")
        member = zlib.decompressobj(31)
        parts.append(member.decompress(data, left + 1))
        left -= len(parts[-1])
        if left < 0:
            raise _too_big(size_bytes_max)
        if not member.eof:
            raise CorruptBatchError("gzip data ends before its end mark")
        data = member.unused_data
    return b"".join(parts)


def _decompress_stream(module: Any, data: Buffer, size_bytes_max: int) -> bytes:
    """Decompress into a target of fixed size, which limits the result. If it is too small, one eight times as big
    replaces it.

    The size in a frame's header is optional and only a claim of the peer, so it is not used. The first target is one
    that was used before, because the pages of a new one cost 2 us for a small batch and 8 us for 128 KiB.
    """
    room = min(max(4 * len(data), _SPARE_BYTES), size_bytes_max)
    try:
        spare = _SPARES.pop()  # IndexError: another thread may have taken the last one
    except IndexError:
        spare = bytearray(_SPARE_BYTES)
    target = spare if room <= _SPARE_BYTES else bytearray(room)
    try:
        while True:
            try:
                size = module.decompress_into(data, target if room == len(target) else memoryview(target)[:room])
            except cramjam.DecompressionError as error:
                if "whole buffer" not in str(error):
                    raise
                if room >= size_bytes_max:
                    raise _too_big(size_bytes_max) from error
                room = min(8 * room, size_bytes_max)
                target = bytearray(room)
                continue
            return bytes(memoryview(target)[:size])
    finally:
        if len(_SPARES) < _SPARES_MAX:
            _SPARES.append(spare)
