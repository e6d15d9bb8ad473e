"""Placement of replicas: different racks first, then evenly; as many as asked for, and each broker once."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from broker.controller.placement import place_replicas

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


def test_the_replicas_of_a_partition_are_on_different_racks() -> None:
    placed = place_replicas(
        live=list(RACKS), fenced=[], partitions=36, replication_factor=3, rng=random.Random(1), racks=RACKS
    )
    assert all({RACKS[broker] for broker in replicas} == {"a", "b", "c"} for replicas in placed)
    assert Counter(replicas[0] for replicas in placed) == dict.fromkeys(RACKS, 6), "leaders are spread evenly"
    assert Counter(broker for replicas in placed for broker in replicas) == dict.fromkeys(RACKS, 18)
    assert len({frozenset(replicas) for replicas in placed}) > 2, "not always the same brokers together"


def test_a_rack_with_one_broker_gets_a_replica_of_each_partition() -> None:
    racks = {1: "a", 2: "a", 3: "a", 4: "b"}
    placed = place_replicas(
        live=list(racks), fenced=[], partitions=9, replication_factor=2, rng=random.Random(1), racks=racks
    )
    assert all(4 in replicas for replicas in placed)


@given(
    racks=st.dictionaries(st.integers(0, 20), st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=9),
    data=st.data(),
)
def test_each_broker_once_a_live_leader_and_no_rack_twice_while_another_is_free(
    racks: dict[int, str | None], data: st.DataObject
) -> None:
    live = data.draw(st.lists(st.sampled_from(sorted(racks)), min_size=1, unique=True))
    fenced = sorted(set(racks) - set(live))
    factor = data.draw(st.integers(1, len(racks)))
    placed = place_replicas(
        live=sorted(live), fenced=fenced, partitions=7, replication_factor=factor, rng=random.Random(3), racks=racks
    )
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert replicas[0] in live
        used = len({racks[broker] for broker in replicas})
        assert used == min(factor, len(set(racks.values())))
