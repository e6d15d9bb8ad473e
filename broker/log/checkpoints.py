"""Kafka's small text files: a version line, a count line, then one entry per line. A file is replaced atomically.

The mark of a clean shutdown is JSON: {"version":0,"brokerEpoch":7} (KIP-966).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from broker.log.filesystem import FileSystem, replace_unsynced

HIGH_WATERMARK_FILE = "replication-offset-checkpoint"
RECOVERY_POINT_FILE = "recovery-point-offset-checkpoint"
LOG_START_FILE = "log-start-offset-checkpoint"
CLEANER_FILE = "cleaner-offset-checkpoint"
LEADER_EPOCH_FILE = "leader-epoch-checkpoint"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
_VERSION = 0
NO_EPOCH = -1

PartitionOffsets: TypeAlias = dict[tuple[str, int], int]


def write_lines(filesystem: FileSystem, path: str, lines: Iterable[str]) -> None:
    filesystem.write_atomically(path, _text(lines))


def write_lines_unsynced(filesystem: FileSystem, path: str, lines: Iterable[str]) -> None:
    """As `write_lines`, but without waiting for the disk. If a loss of power tears the file, `read_lines` finds
    nothing."""
    replace_unsynced(filesystem, path, _text(lines))


def _text(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "".join(f"{line}\n" for line in (_VERSION, len(entries), *entries)).encode()


def read_lines(filesystem: FileSystem, path: str) -> list[str] | None:
    """The entries. None if the file is missing or damaged; the caller then starts without it."""
    if not filesystem.exists(path):
        return None
    text = filesystem.read_bytes(path).decode(errors="replace")
    lines = text.splitlines()
    if not text.endswith("\n") or len(lines) < 2 or lines[0] != str(_VERSION) or lines[1] != str(len(lines) - 2):
        return None
    return lines[2:]


def write_offsets(filesystem: FileSystem, path: str, offsets: Mapping[tuple[str, int], int]) -> None:
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    write_lines(filesystem, path, lines)


def read_offsets(filesystem: FileSystem, path: str) -> PartitionOffsets:
    offsets: PartitionOffsets = {}
    for line in read_lines(filesystem, path) or []:
        try:
            topic, partition, offset = line.rsplit(" ", 2)
            offsets[(topic, int(partition))] = int(offset)
        except ValueError:
            return {}
    return offsets


def clean_shutdown_mark(broker_epoch: int) -> bytes:
    return json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def epoch_of_mark(content: bytes) -> int:
    """NO_EPOCH if the mark holds no epoch. A broker before KIP-966 left an empty file."""
    try:
        mark = json.loads(content)
    except ValueError:
        return NO_EPOCH
    epoch = mark.get("brokerEpoch") if isinstance(mark, dict) and mark.get("version") == _VERSION else None
    return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) else NO_EPOCH
