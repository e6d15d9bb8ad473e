"""The Kafka protocol as values and bytes. No I/O, no clock, no state beyond caches.

Import from the modules:

    apis        ApiKey, Listener{CLIENT, INTER_BROKER, CONTROLLER}, APIS, advertised(listener) -> [(key, min, max)],
                is_supported(key, version, listener=None), negotiate(key, {key: (min, max)}) -> version|None
    messages    request(key, version, **fields), response(key, version, **fields): build a message. Nested structures as
                dicts, arrays as any iterable, durations as ms, error codes as int; fields the version lacks are left
                out, missing ones get the protocol's default. kio's names (`throttle_time`, `max_wait`, `timeout`).
                request_types(key, version), response_types(key, version) -> kio module; to_ms(value) -> int
    codec       decode_request(frame) -> (RequestHeader, message)   frame = without length prefix
                decode_request_header(frame) -> RequestHeader       raises UnsupportedVersionError(.header)
                encode_response(key, version, correlation_id, message) -> [buffer]   with length prefix
                encode_request(key, version, correlation_id, client_id, message) -> [buffer]
                decode_response_correlation_id(frame), decode_response(key, version, frame) -> (correlation_id, message)
                encode_unsupported_api_versions(correlation_id, listener) -> [buffer]
                `records` in: bytes-like or a list of them (never copied). `records` out: memoryview of the frame for
                Produce requests and Fetch responses (writable if the frame is), else bytes. None = null.
    framing     FrameReader(frame_bytes_max=): receive_bytes(data) | writable(hint), written(n);
                next_frame() -> memoryview|None, valid until the next receive_bytes/writable
    records     encode_batch(values, ...) -> bytes, encode_batch_buffers(...) -> [header, body], parse_batch_header,
                iter_batches(buffer), validate_batches(buffer) -> [BatchHeader], set_base_offset_and_epoch(...),
                decode_records(batch) -> [(offset, timestamp_ms, key, value, headers)], RawBatch, BatchHeader, CodecId
    compression compress(codec, data), decompress(codec, data, size_bytes_max=)
    errors      ErrorCode (kio's, lower-case names), error_name(code), is_retriable(code),
                RemoteProtocolError, LocalProtocolError, CorruptBatchError
    fates       FATES, is_definite(code): which answer to a Produce request proves that nothing was appended
    murmur2     murmur2(data), partition_for_key(key, partition_count)
"""

from __future__ import annotations

import sys


def _import_kio_without_hypothesis() -> None:
    """kio registers strategies with Hypothesis where that is installed, and imports it for that: 0.2 s of each process
    that speaks the protocol. A process that has imported Hypothesis before (pytest) keeps it."""
    if "hypothesis" in sys.modules:
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # an import of it fails, as if it were not installed
    try:
        import kio.static.primitive
    finally:
        del sys.modules["hypothesis"]
    assert kio.static.primitive


_import_kio_without_hypothesis()
