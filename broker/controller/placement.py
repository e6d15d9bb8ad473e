"""Which brokers get the replicas of a new topic: striped, so that leaders and followers spread evenly."""

from __future__ import annotations

import random
from collections.abc import Sequence


def place_replicas(
    *, live: Sequence[int], fenced: Sequence[int], partitions: int, replication_factor: int, rng: random.Random
) -> tuple[tuple[int, ...], ...]:
    """Replicas of each partition; the first one leads. Fenced brokers are used only if there are too few live ones.

    The caller has checked 1 <= replication_factor <= len(live) + len(fenced) and that `live` is not empty.
    """
    start = rng.randrange(len(live))
    return tuple(
        _place_one(live, fenced, partition, start=start, replication_factor=replication_factor)
        for partition in range(partitions)
    )


def _place_one(
    live: Sequence[int], fenced: Sequence[int], partition: int, *, start: int, replication_factor: int
) -> tuple[int, ...]:
    count = len(live)
    leader = (start + partition) % count
    # Each round over all brokers shifts the followers, so that not always the same pairs of brokers share partitions.
    shift = (partition // count) % max(1, count - 1)
    others = [live[(leader + 1 + (shift + step) % (count - 1)) % count] for step in range(count - 1)]
    spare = [fenced[(partition + step) % len(fenced)] for step in range(len(fenced))]
    return (live[leader], *others, *spare)[:replication_factor]
