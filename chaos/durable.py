"""What a loss of power leaves of a broker's segment files, computed from the notes of its storage. Pure.

The notes are in `<harness.disk.faults>.durable`: lines `w|s|t monotonic_ms size path` (written, synced, truncated).
Bytes stay if they were synced, or if they are so old that the operating system has written them by itself.
"""

from __future__ import annotations

from collections.abc import Iterable


def durable_sizes(lines: Iterable[str], *, now_ms: int, writeback_ms: int) -> dict[str, int]:
    """The size of each noted file after a loss of power at `now_ms`. What stays are the synced bytes, and those older
    than `writeback_ms`, because the operating system has written them by itself (Linux: 30 s)."""
    durable: dict[str, int] = {}
    pending: dict[str, list[tuple[int, int]]] = {}
    for line in lines:
        parts = line.rstrip("\n").split(" ", 3)
        if len(parts) != 4:
            continue  # the kill tore this line
        kind, at_ms, size, path = parts[0], int(parts[1]), int(parts[2]), parts[3]
        waiting = pending.setdefault(path, [])
        before = durable.setdefault(path, 0)
        if kind == "w":
            waiting.append((at_ms, size))
        elif kind == "s":
            durable[path] = size
            waiting.clear()
        else:  # truncated: these bytes are gone in any case
            durable[path] = min(before, size)
            pending[path] = [(when, min(size, length)) for when, length in waiting]
    for path, waiting in pending.items():
        old = [size for when, size in waiting if now_ms - when >= writeback_ms]
        durable[path] = max([durable[path], *old])
    return durable
