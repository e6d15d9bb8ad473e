"""The mapped file with the rules for an interposed broker, field by field as in interposer.c. Numbers are int64 in the
host's byte order.

The first number is the offset of the wall clock in nanoseconds. The reference broker uses this number too
(`harness.clock.control`). Only this module writes the rules. The process counts what it did, and this module reads the
counts.
"""

from __future__ import annotations

import errno
import mmap
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

CALLS: Final = ("write", "sync", "truncate", "read")  # in the order of their bits in `calls`
ENVIRONMENT: Final = "KAFKA_HARNESS_FAULT_PAGE"
RULES_MAX: Final = 8
DIRECTORY_BYTES: Final = 3072
PATH_BYTES: Final = 3072
_CLOCK_AT, _COUNT_AT, _DONE_AT, _RULES_AT = 0, 8, 16, 48
_RULE: Final = struct.Struct(f"=6q{PATH_BYTES}s")  # calls, error, delay_ns, is_lost, skip, matched, path
_DIRECTORY_AT: Final = _RULES_AT + RULES_MAX * _RULE.size
SIZE_BYTES: Final = _DIRECTORY_AT + DIRECTORY_BYTES


def create(path: Path, directory: Path) -> None:
    """Create the file without a fault, for a broker with its logs below `directory`. Raises ValueError if the path is
    too long."""
    name = str(directory.resolve()).encode()
    if len(name) >= DIRECTORY_BYTES:
        raise ValueError(f"{directory} is {len(name)} bytes long, {DIRECTORY_BYTES - 1} are the most")
    path.write_bytes(bytes(_DIRECTORY_AT) + name.ljust(DIRECTORY_BYTES, b"\0"))


def set_clock_offset(path: Path, offset_ns: int) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), SIZE_BYTES) as page:
        view = memoryview(page)
        clock = view[_CLOCK_AT : _CLOCK_AT + 8].cast("q")
        clock[0] = offset_ns  # one store, so that no reader sees half of it
        clock.release()
        view.release()


def set_rules(path: Path, rules: Sequence[Mapping[str, object]]) -> None:
    """Write rules. They have the form of the reference broker's control file (broker/log/disk_faults.py). Without rules
    the disk works normally. `path` is a part of the path that the kernel gives a file. So it has no symbolic links."""
    if len(rules) > RULES_MAX:
        raise ValueError(f"{len(rules)} rules, {RULES_MAX} are the most")
    packed = [_packed(rule) for rule in rules]
    with path.open("r+b") as file, mmap.mmap(file.fileno(), SIZE_BYTES) as page:
        view = memoryview(page)
        count = view[_COUNT_AT : _COUNT_AT + 8].cast("q")
        count[0] = 0
        for number, fields in enumerate(packed):
            page[_RULES_AT + number * _RULE.size : _RULES_AT + (number + 1) * _RULE.size] = fields
        if rules:
            page[_DONE_AT:_RULES_AT] = bytes(_RULES_AT - _DONE_AT)
            count[0] = len(rules)
        count.release()
        view.release()


def _packed(rule: Mapping[str, object]) -> bytes:
    call = str(rule["call"])
    calls = (1 << len(CALLS)) - 1 if call == "any" else 1 << CALLS.index(call)
    number = int(getattr(errno, str(rule["error"]))) if rule.get("error") else 0
    delay_ns = int(str(rule.get("delay_ms", 0))) * 1_000_000
    path = str(rule.get("path", "")).encode()
    if len(path) >= PATH_BYTES:
        raise ValueError(f"path is {len(path)} bytes long, {PATH_BYTES - 1} are the most")
    return _RULE.pack(calls, number, delay_ns, int(bool(rule.get("lost"))), int(str(rule.get("skip", 0))), 0, path)


def done(path: Path) -> dict[str, int]:
    """How many calls were delayed, refused or lost under the last rules."""
    counts = struct.unpack_from("=4q", path.read_bytes(), _DONE_AT)
    return {call: count for call, count in zip(CALLS, counts, strict=True) if count}
