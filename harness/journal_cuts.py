"""What brokers took off their logs since a moment, from their journals. Apache Kafka has none: then nothing is known.

Shown by tests/harness/test_harness_loss_words.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from harness.loss_words import Cut

_KIND: Final = "truncated"
_BYTES_READ_MAX: Final = 64 << 20  # of one journal; a test's own is some kilobytes


def cuts_since(journals: Iterable[Path], topics: Iterable[str], since_ns: int) -> tuple[Cut, ...]:
    """By time. A line that cannot be read is passed over: a broker that was killed may leave a torn one."""
    wanted = set(topics)
    found: list[tuple[int, Cut]] = []
    for path in journals:
        for line in _lines(path):
            at_ns = line.get("mono_ns")
            if line.get("kind") != _KIND or line.get("topic") not in wanted or not isinstance(at_ns, int):
                continue
            cut = _cut(line)
            if cut is not None and at_ns >= since_ns:
                found.append((at_ns, cut))
    return tuple(cut for _, cut in sorted(found, key=lambda item: item[0]))


def _lines(path: Path) -> Iterable[dict[str, object]]:
    try:
        with path.open("rb") as file:
            text = file.read(_BYTES_READ_MAX)
    except OSError:
        return
    for line in text.splitlines():
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if isinstance(document, dict):
            yield document


def _cut(line: dict[str, object]) -> Cut | None:
    numbers = [line.get(name) for name in ("broker", "partition", "to_offset", "from_offset")]
    if not all(isinstance(number, int) for number in numbers):
        return None
    broker, partition, first, end = (int(str(number)) for number in numbers)
    if first >= end:
        return None
    return Cut(broker=broker, topic=str(line["topic"]), partition=partition, first_offset=first, end_offset=end)
