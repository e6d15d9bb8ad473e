"""What brokers truncated since a given moment, from their journals. Apache Kafka has no journal, so there it is
unknown.

Shown by tests/harness/test_harness_loss_words.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from harness.loss_words import Cut
from runlog.records.codec import RecordError
from runlog.records.lines import CLUSTER, read_line
from runlog.records.partition import Truncated

_BYTES_READ_MAX: Final = 64 << 20  # No more is read of one journal. A test's own is some kilobytes.


def cuts_since(journals: Iterable[Path], topics: Iterable[str], since_ns: int) -> tuple[Cut, ...]:
    """The truncations in order of time. A line that cannot be read is skipped: a killed broker may leave a torn one."""
    wanted = set(topics)
    found = [
        (line.t_us, Cut(
            broker=line.broker, topic=line.topic, partition=line.partition, first_offset=line.to_offset,
            end_offset=line.from_offset,
        ))
        for path in journals
        for line in _truncations(path, since_ns)
        if line.topic in wanted and line.topic is not None and line.to_offset < line.from_offset
    ]  # fmt: skip
    return tuple(cut for _, cut in sorted(found, key=lambda item: item[0]))


def _truncations(path: Path, since_ns: int) -> Iterator[Truncated]:
    """The truncations since the given moment. Their `t_us` counts from it."""
    try:
        with path.open("rb") as file:
            text = file.read(_BYTES_READ_MAX)
    except OSError:
        return
    for line in text.splitlines():
        try:
            found = read_line(line, CLUSTER, t0_monotonic_ns=since_ns)
        except RecordError:
            continue
        if isinstance(found, Truncated) and found.t_us >= 0:
            yield found
