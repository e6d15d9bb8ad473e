"""Hundreds of seeded lives of a quorum under drops, delays, network partitions, kills and restarts."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from quorum_simulation import World

from broker.quorum.types import PersistedState
from tests.amount import seeds

FAST = {"election_timeout_ms": 80, "fetch_timeout_ms": 160, "request_timeout_ms": 120, "fetch_max_wait_ms": 70}
# Two refused rounds and the fetch timeouts around them; what a chaos scenario may rely on.
ELECTION_BOUND_MS = 6 * FAST["election_timeout_ms"] + 4 * FAST["fetch_timeout_ms"]


def disturb(world: World, chaos: random.Random) -> None:
    """One random misfortune, or its end."""
    dead = [node for node in world.voters if node not in world.cores]
    match chaos.randrange(11):
        case 0 | 1 | 2 if len(world.cores) > len(world.voters) // 2:
            leader = world.leader()
            world.kill(chaos.choice(sorted(world.cores)) if leader is None or chaos.random() < 0.4 else leader)
        case 3 | 4 | 5 if dead:
            world.start(chaos.choice(dead))
        case 6:
            world.isolate(set(chaos.sample(world.voters, chaos.randint(1, len(world.voters) // 2))))
        case 7:
            a, b = chaos.sample(world.voters, 2)
            world.network.cut.add((a, b))
        case 8:
            world.network.drop_share = chaos.choice([0.0, 0.1, 0.4])
        case 9:
            world.network.delay_ms = chaos.choice([(1, 5), (1, 30), (10, 60)])
        case _:
            world.heal()


def live_through(seed: int, nodes: int, rounds: int) -> World:
    """In every second seed nodes take snapshots and drop what is in them; pieces of one are a few bytes then."""
    has_snapshots = seed % 2 == 1
    world = World(nodes=nodes, seed=seed, **FAST, **({"fetch_snapshot_max_bytes": 40} if has_snapshots else {}))
    chaos = random.Random(seed * 7919 + 1)
    for _ in range(rounds):
        disturb(world, chaos)
        for node in sorted(world.cores) if has_snapshots else ():
            if chaos.random() < 0.6:
                world.take_snapshot(node, drops_prefix=chaos.random() < 0.8)
        for _ in range(chaos.randint(1, 3)):
            world.propose()
            world.run_for(chaos.randint(5, 400))
    return world


@pytest.mark.parametrize(
    "block", [pytest.param(block, marks=pytest.mark.thorough) if block else block for block in seeds(10, fast=2)]
)
def test_invariants_hold_and_the_quorum_recovers(block: int) -> None:
    for seed in range(block * 24, block * 24 + 24):
        world = live_through(seed, nodes=3 if seed % 3 else 5, rounds=12)
        world.heal()
        world.network.delay_ms = (1, 5)
        for node in world.voters:
            if node not in world.cores:
                world.start(node)
        world.run_for(1)
        world.run_until_leader(ELECTION_BOUND_MS)
        world.run_for(3 * ELECTION_BOUND_MS)
        world.propose()
        world.run_for(ELECTION_BOUND_MS)
        start = max(core.log_start_offset for core in world.cores.values())
        logs = {core.read_log(start) for core in world.cores.values()}
        assert len(logs) == 1, f"seed {seed}: logs differ: {world.describe()}"
        assert {core.high_watermark for core in world.cores.values()} == {world.committed_end}, f"seed {seed}"


def test_the_simulation_is_deterministic() -> None:
    first, second = live_through(5, nodes=3, rounds=8), live_through(5, nodes=3, rounds=8)
    assert first.committed == second.committed
    assert first.events == second.events
    assert first.elections == second.elections


@pytest.mark.thorough
def test_the_chaos_is_worth_the_name() -> None:
    worlds = [live_through(seed, nodes=3, rounds=20) for seed in range(12)]
    assert sum(len(world.leaders) for world in worlds) > 24
    assert sum(len(world.committed) for world in worlds) > 100
    assert sum(world.installed for world in worlds) > 3


@pytest.mark.parametrize("seed", range(25))
def test_a_majority_elects_within_bounded_time_after_the_leader_is_killed(seed: int) -> None:
    world = World(nodes=3, seed=seed, **FAST)
    world.run_until_leader(ELECTION_BOUND_MS)
    world.run_for(400)
    leader = world.leader()
    assert leader is not None
    world.kill(leader)
    assert world.run_until_leader(ELECTION_BOUND_MS) <= ELECTION_BOUND_MS


def test_a_cold_start_elects_without_waiting_for_the_election_timeout() -> None:
    times_ms = [World(nodes=3, seed=seed).run_until_leader(3_000) for seed in range(40)]
    assert sorted(times_ms)[len(times_ms) // 2] < 400  # with Kafka's default timeouts
    assert max(times_ms) < 3_000


def test_a_node_that_forgot_the_leader_finds_the_leader_by_asking() -> None:
    world = World(nodes=3, seed=2)
    world.run_until_leader(3_000)
    world.run_for(3_000)
    leader, elections = world.leader(), len(world.elections)
    node = next(voter for voter in world.voters if voter != leader)
    world.kill(node)
    world.disks[node].state = PersistedState(leader_epoch=world.disks[node].state.leader_epoch)
    world.start(node)
    world.run_for(600)
    assert world.cores[node].leader_id == leader
    assert len(world.elections) == elections


def test_a_minority_elects_nobody_and_does_not_raise_its_epoch() -> None:
    world = World(nodes=3, seed=1, **FAST)
    world.run_until_leader(ELECTION_BOUND_MS)
    epoch = max(core.epoch for core in world.cores.values())
    for node in [node for node in world.voters if node != world.leader()]:
        world.kill(node)
    world.run_for(20_000)
    (survivor,) = world.cores.values()
    assert not survivor.is_leader
    assert survivor.epoch == epoch  # pre-vote


def test_an_isolated_follower_does_not_disturb_the_leader_when_it_returns() -> None:
    world = World(nodes=3, seed=3, **FAST)
    world.run_until_leader(ELECTION_BOUND_MS)
    world.run_for(200)
    leader, elections = world.leader(), len(world.elections)
    follower = next(node for node in world.voters if node != leader)
    world.isolate({follower})
    world.run_for(10_000)
    world.propose()
    world.heal()
    world.run_for(5_000)
    assert world.leader() == leader
    assert len(world.elections) == elections
    assert world.cores[follower].high_watermark == world.committed_end


def test_a_leader_cut_from_the_majority_resigns() -> None:
    world = World(nodes=3, seed=4, **FAST)
    world.run_until_leader(ELECTION_BOUND_MS)
    world.run_for(200)
    leader = world.leader()
    assert leader is not None
    world.isolate({leader})
    world.run_for(FAST["fetch_timeout_ms"] * 2)
    assert not world.cores[leader].is_leader
    world.run_until_leader(ELECTION_BOUND_MS)
    assert world.leader() != leader


def test_an_uncommitted_entry_of_a_deposed_leader_is_truncated() -> None:
    world = World(nodes=3, seed=6, **FAST)
    world.run_until_leader(ELECTION_BOUND_MS)
    world.run_for(200)
    old = world.leader()
    assert old is not None
    world.isolate({old})
    world.propose()
    orphan = world.cores[old].read_log()[-1]
    world.run_for(3_000)
    assert world.leader() != old
    assert orphan in world.disks[old].entries
    world.heal()
    world.run_for(3_000)
    assert orphan not in world.disks[old].entries
    assert orphan not in world.committed


def test_a_clean_shutdown_hands_over_faster_than_the_fetch_timeout() -> None:
    for seed in range(10):
        world = World(nodes=3, seed=seed, **FAST)
        world.run_until_leader(ELECTION_BOUND_MS)
        world.run_for(400)
        leader = world.leader()
        assert leader is not None
        world.shut_down(leader)
        world.run_for(20)
        world.kill(leader)
        assert world.run_until_leader(FAST["fetch_timeout_ms"] // 2) < FAST["fetch_timeout_ms"] // 2


def test_a_quorum_of_one_leads_at_once_and_commits_at_once() -> None:
    world = World(nodes=1, seed=0, **FAST)
    assert world.leader() == 1
    world.propose()
    assert len(world.committed) == 2
    world.kill(1)
    world.start(1)
    assert world.cores[1].epoch == 2
    assert world.cores[1].high_watermark == 3


def test_a_follower_that_was_away_gets_the_snapshot_and_then_the_entries_behind_it() -> None:
    world = World(nodes=3, seed=7, **FAST, fetch_snapshot_max_bytes=16)
    world.run_until_leader(ELECTION_BOUND_MS)
    leader = world.leader()
    assert leader is not None
    away = next(node for node in world.voters if node != leader)
    world.kill(away)
    for _ in range(10):
        world.propose()
    world.run_for(300)
    for node in world.cores:
        world.take_snapshot(node)
    end_offset = world.cores[leader].log_start_offset
    assert end_offset >= 10
    world.propose()
    world.start(away)
    world.run_for(600)
    assert world.installed == 1
    assert world.cores[away].snapshot_id == world.cores[leader].snapshot_id
    assert world.cores[away].high_watermark == world.committed_end > end_offset
    world.kill(away)
    world.start(away)  # from snapshot and log, without the leader's help
    assert world.cores[away].high_watermark == end_offset
    world.run_for(600)
    assert world.installed == 1


def test_a_snapshot_that_is_replaced_while_it_is_fetched_is_begun_anew() -> None:
    world = World(nodes=3, seed=8, **FAST, fetch_snapshot_max_bytes=1)
    world.run_until_leader(ELECTION_BOUND_MS)
    leader = world.leader()
    assert leader is not None
    away = next(node for node in world.voters if node != leader)
    world.kill(away)
    for _ in range(5):
        world.propose()
    world.run_for(200)
    world.take_snapshot(leader)
    world.start(away)
    world.run_for(60)
    assert world.installed == 0
    world.propose()
    world.run_for(100)
    world.take_snapshot(leader)
    world.run_for(6_000)
    assert world.installed == 1
    assert world.cores[away].snapshot_id == world.cores[leader].snapshot_id


def test_all_restarted_with_their_disks_lose_nothing() -> None:
    world = World(nodes=3, seed=9, **FAST)
    world.run_until_leader(ELECTION_BOUND_MS)
    for _ in range(20):
        world.propose()
    world.run_for(200)
    count = len(world.committed)
    assert count >= 21
    for node in world.voters:
        world.kill(node)
    for node in world.voters:
        world.start(node)
    world.run_until_leader(ELECTION_BOUND_MS + 1000)
    assert len(world.committed) > count
