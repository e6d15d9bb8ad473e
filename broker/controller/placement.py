"""Which brokers get the replicas of a new topic: striped, so that leaders and followers spread evenly.

If the brokers have several racks (`broker.rack`), the replicas of a partition go to different racks as far as possible.
As in Kafka, this is more important than an even spread. So, for example, with three racks and three replicas, a rack
with one broker gets a replica of every partition. Brokers without a rack count as one rack. Shown by
tests/broker_controller/test_controller_placement.py.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import count


def place_replicas(
    *,
    live: Sequence[int],
    fenced: Sequence[int],
    partitions: int,
    replication_factor: int,
    rng: random.Random,
    racks: Mapping[int, str | None] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Replicas of each partition; the first one leads. Fenced brokers are used only if there are too few live ones.

    The caller has checked 1 <= replication_factor <= len(live) + len(fenced) and that `live` is not empty. `racks`
    holds the rack of each broker. None: no broker has a rack.
    """
    rack_of = {broker: (racks or {}).get(broker) or "" for broker in (*live, *fenced)}
    if len(set(rack_of.values())) > 1:
        return _across_racks(live, fenced, rack_of, partitions, replication_factor, rng)
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
    # Each round over all brokers shifts the followers, so that a broker shares partitions with many others.
    shift = (partition // count) % max(1, count - 1)
    others = [live[(leader + 1 + (shift + step) % (count - 1)) % count] for step in range(count - 1)]
    spare = [fenced[(partition + step) % len(fenced)] for step in range(len(fenced))]
    return (live[leader], *others, *spare)[:replication_factor]


def _across_racks(
    live: Sequence[int],
    fenced: Sequence[int],
    rack_of: Mapping[int, str],
    partitions: int,
    replication_factor: int,
    rng: random.Random,
) -> tuple[tuple[int, ...], ...]:
    """The racks take turns, and so do the brokers in each rack, the live ones first. A leader is always live."""
    names = sorted(set(rack_of.values()), key=lambda name: (not any(rack_of[each] == name for each in live), name))
    living = {name: [broker for broker in live if rack_of[broker] == name] for name in names}
    resting = {name: [broker for broker in fenced if rack_of[broker] == name] for name in names}
    able = sum(bool(brokers) for brokers in living.values())  # racks with a live broker come first in `names`
    start = rng.randrange(able)
    first = {name: rng.randrange(max(1, len(living[name]))) for name in names}
    placed = []
    for partition in range(partitions):
        leads, turn = (start + partition) % able, partition // able
        # The rack of the leader goes first. In the other racks the choice shifts with every round over a rack's
        # brokers, so that a broker shares partitions with many others.
        order = [names[(leads + step) % len(names)] for step in range(len(names))]
        queues = []
        for place, name in enumerate(order):
            shift = turn + place * (1 + turn // max(1, len(living[name])))
            queues.append([*_rotated(living[name], first[name] + shift), *_rotated(resting[name], partition)])
        replicas: list[int] = []
        for row in count():
            replicas += [queue[row] for queue in queues if row < len(queue)]
            if len(replicas) >= replication_factor:
                break
        placed.append(tuple(replicas[:replication_factor]))
    return tuple(placed)


def _rotated(brokers: Sequence[int], by: int) -> list[int]:
    return [brokers[(by + step) % len(brokers)] for step in range(len(brokers))]
