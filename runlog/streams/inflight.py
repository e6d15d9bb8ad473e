"""What a producer handed to its client most recently. A killed load process leaves this trace.

A `send` row is written when the outcome is known. If a process is killed before that, this trace is all that is left
of its sends in flight. Without it, such a record in the log would look as if it had never been sent, and a record that
is not in the log would not be missed.

So each send first writes (seq, intended_us, sent_us, size) into a memory-mapped ring of its (producer, incarnation).
After the run, `compact.py` looks at every seq up to the highest in the ring. One without a `send` row gets a row of
status UNKNOWN, because it is not known to be lost. The ring is written before the client is called. So a kill between
the two also gives UNKNOWN.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SUFFIX = ".inflight"
RING_SLOTS = 131_072  # also the bound of sends in flight per producer; 4 MB
_MAGIC = b"KHRING01"
_FILE_HEADER = struct.Struct("<8siiqi")
_HEADER_BYTES = 64
_SLOT = struct.Struct("<qqqi")  # seq + 1, intended_us, sent_us, size_bytes; a slot never used reads 0
_SLOT_DTYPE = np.dtype([("seq_plus_1", "<i8"), ("intended_us", "<i8"), ("sent_us", "<i8"), ("size_bytes", "<i4")])
_RAW_SLOT = np.dtype(f"V{_SLOT.size}")
_Column = NDArray[np.integer[Any]]


class InflightRing:
    """One producer's sends in flight. Not thread-safe: a caller that takes outcomes from another thread needs a lock.

    A send may outlive its slot when it waits for a dead leader while others go on. Then its times are kept aside in
    this process. Only a kill loses them, and compaction then gives such a send an interpolated time.
    """

    def __init__(self, directory: Path, *, producer: int, incarnation: int, slots: int = RING_SLOTS) -> None:
        if slots & (slots - 1):
            raise ValueError(f"slots is {slots}, expected a power of two")
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"producer-{producer}-{incarnation}{SUFFIX}"
        size = _HEADER_BYTES + slots * _SLOT.size
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
            self._map = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        _FILE_HEADER.pack_into(self._map, 0, _MAGIC, producer, incarnation, 0, slots)
        self._mask = slots - 1
        self.slots = slots
        self._slots: NDArray[Any] = np.frombuffer(self._map, dtype=_SLOT_DTYPE, count=slots, offset=_HEADER_BYTES)
        self._is_busy = np.zeros(slots, dtype=np.bool_)
        self._aside: dict[int, tuple[int, int, int, int]] = {}  # The key is the seq, the value what its slot held.

    def record(self, seq: int, intended_us: int, sent_us: int, size_bytes: int) -> None:
        """Note a send, before the client is called."""
        slot = seq & self._mask
        if self._is_busy[slot]:
            self._put_aside(slot, seq)
        self._is_busy[slot] = True
        _SLOT.pack_into(self._map, _HEADER_BYTES + slot * _SLOT.size, seq + 1, intended_us, sent_us, size_bytes)

    def record_many(self, first_seq: int, intended_us: _Column, sent_us: int, size_bytes: _Column) -> None:
        """`record` for consecutive sends that are about to be handed over. The seq is written last, so a slot that a
        kill interrupts still names its old owner."""
        slots, done, count = self._slots, 0, len(intended_us)
        while done < count:
            start = (first_seq + done) & self._mask
            end = min(start + count - done, self.slots)
            if self._is_busy[start:end].any():
                for slot in (start + np.flatnonzero(self._is_busy[start:end])).tolist():
                    self._put_aside(slot, first_seq + done + slot - start)
            part = slice(done, done + end - start)
            slots["intended_us"][start:end] = intended_us[part]
            slots["sent_us"][start:end] = sent_us
            slots["size_bytes"][start:end] = size_bytes[part]
            slots["seq_plus_1"][start:end] = np.arange(first_seq + done + 1, first_seq + done + 1 + end - start)
            self._is_busy[start:end] = True
            done += end - start

    def take(self, seq: int) -> tuple[int, int, int]:
        """(intended_us, sent_us, size_bytes) of a send that now has its outcome. KeyError if it is not in flight."""
        slot = seq & self._mask
        seq_plus_1, intended_us, sent_us, size_bytes = _SLOT.unpack_from(self._map, _HEADER_BYTES + slot * _SLOT.size)
        if seq_plus_1 != seq + 1:
            return self._aside.pop(seq)[1:]
        self._is_busy[slot] = False
        return intended_us, sent_us, size_bytes

    def take_many(self, seqs: NDArray[np.int64]) -> NDArray[Any]:
        """`take` for many: an array with the fields intended_us, sent_us, size_bytes."""
        places = seqs & self._mask
        taken: NDArray[Any] = self._slots.view(_RAW_SLOT)[places].view(_SLOT_DTYPE)  # as bytes, not field by field
        is_here = taken["seq_plus_1"] == seqs + 1
        if is_here.all():
            self._is_busy[places] = False
            return taken
        self._is_busy[places[is_here]] = False
        for index in np.flatnonzero(~is_here).tolist():
            taken[index] = self._aside.pop(int(seqs[index]))
        return taken

    def erase(self, first_seq: int, count: int = 1) -> None:
        """Remove sends that the client refused and that will not be tried again."""
        for seq in range(first_seq, first_seq + count):
            slot = seq & self._mask
            self._is_busy[slot] = False
            _SLOT.pack_into(self._map, _HEADER_BYTES + slot * _SLOT.size, 0, 0, 0, 0)

    def close(self) -> None:
        self._slots = np.empty(0, dtype=_SLOT_DTYPE)  # a view keeps the map from being closed
        self._map.close()

    def _put_aside(self, slot: int, next_seq: int) -> None:
        seq_plus_1, intended_us, sent_us, size_bytes = self._slots[slot].tolist()
        if seq_plus_1 != next_seq + 1:  # the same send again, after the client had no space, stays where it is
            self._aside[seq_plus_1 - 1] = (seq_plus_1, intended_us, sent_us, size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class InflightState:
    """The last sends of one (producer, incarnation). Arrays are parallel and sorted by seq."""

    producer: int
    incarnation: int
    seqs: NDArray[np.int64]
    intended_us: NDArray[np.int64]
    sent_us: NDArray[np.int64]
    size_bytes: NDArray[np.int32]

    @property
    def high_seq(self) -> int:
        """The highest seq handed to the client, -1 if none was."""
        return int(self.seqs[-1]) if len(self.seqs) else -1


def read_ring(path: Path) -> InflightState:
    data = path.read_bytes()
    name_parts = path.name.removesuffix(SUFFIX).split("-")
    if len(data) < _HEADER_BYTES or data[:8] == b"\0" * 8:  # killed before the file was set up: nothing was sent
        slots = np.empty(0, dtype=_SLOT_DTYPE)
        producer, incarnation = int(name_parts[1]), int(name_parts[2])
    else:
        magic, producer, incarnation, _reserved, count = _FILE_HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise ValueError(f"{path} is not an in-flight ring")
        slots = np.frombuffer(data, dtype=_SLOT_DTYPE, count=count, offset=_HEADER_BYTES)
    # A slot torn by a kill has a new seq with an old or zero time. This seq was about to be handed over, so it stays,
    # as unknown. pack_into clears the slot first. So a slot interrupted earlier reads 0, and that send was never handed
    # over.
    used = np.sort(slots[slots["seq_plus_1"] > 0], order="seq_plus_1")
    return InflightState(
        producer=producer,
        incarnation=incarnation,
        seqs=used["seq_plus_1"] - 1,
        intended_us=used["intended_us"].copy(),
        sent_us=used["sent_us"].copy(),
        size_bytes=used["size_bytes"].copy(),
    )


def read_rings(directory: Path) -> list[InflightState]:
    """Every ring in a cell's live directory, by producer and incarnation."""
    states = [read_ring(path) for path in directory.glob(f"producer-*{SUFFIX}")]
    return sorted(states, key=lambda state: (state.producer, state.incarnation))
