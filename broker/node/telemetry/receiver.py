"""The file for clients' metrics: one file of JSON lines for each broker, with at most one older file beside it.

Each line has the facts about the client, and its metrics in base64: OTLP's MetricsData (protobuf), decompressed. If the
file would become larger than `harness.telemetry.bytes`, it is renamed to FILE.1 and replaces the old FILE.1.
Shown by tests/broker_node/test_node_telemetry.py.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

from broker.wire.compression import CodecId, decompress
from broker.wire.errors import CorruptBatchError, ErrorCode, UnpackedTooBigError

UNPACKED_BYTES_MAX = 4 << 20  # for one push, also if more may be pushed: it is unpacked and written in about 20 ms


class Receiver:
    def __init__(self, path: Path | None, *, size_bytes_max: int, push_bytes_max: int) -> None:
        """If `path` is None, accepted metrics are discarded, as Apache Kafka does without a plug-in. A push may have
        `push_bytes_max`, also when it is unpacked."""
        self._path, self._size_bytes_max = path, size_bytes_max
        self._unpacked_bytes_max = min(push_bytes_max, UNPACKED_BYTES_MAX)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)

    def take(self, codec: CodecId, metrics: bytes, **facts: object) -> ErrorCode:
        """Returns NONE, or the error if the metrics are not accepted. Raises OSError if the line cannot be written."""
        limit = self._unpacked_bytes_max
        try:
            unpacked = decompress(codec, metrics, size_bytes_max=limit)
        except (UnpackedTooBigError, CorruptBatchError):
            return ErrorCode.invalid_record
        if len(unpacked) > limit:
            return ErrorCode.invalid_record
        if self._path is not None:
            event = {**facts, "metrics": base64.b64encode(unpacked).decode()}
            self._write(self._path, json.dumps(event, separators=(",", ":")).encode() + b"\n")
        return ErrorCode.none

    def _write(self, path: Path, line: bytes) -> None:
        size_bytes = path.stat().st_size if path.exists() else 0
        if size_bytes and size_bytes + len(line) > self._size_bytes_max:
            path.replace(older(path))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            file.write(line)


def older(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")
