"""The share coordinator's shard: fencing, snapshots, updates and replay; a random life against plain dictionaries."""

from __future__ import annotations

import random
from dataclasses import replace
from uuid import UUID

import pytest

from broker.coordinator.runtime import Append, LoadedRecord, Reply, Tick
from broker.node.features.share_groups.delivery.state_batches import StateBatch
from broker.node.features.share_groups.states.records import Snapshot, StateKey, Update, decode, encode, is_key
from broker.node.features.share_groups.states.shard import (
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    ShareStateShard,
    SnapshotStale,
    StateResult,
    TopicsKnown,
    WriteState,
)
from broker.wire.errors import ErrorCode
from tests.amount import seeds

KEY = StateKey(group_id="g", topic_id=UUID(int=7), partition=3)


def batch(first: int, last: int, state: int = 2, count: int = 1) -> StateBatch:
    return StateBatch(first_offset=first, last_offset=last, state=state, delivery_count=count)


class World:
    """A shard with its log."""

    def __init__(self, updates_per_snapshot: int = 3) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self.shard = self.new_shard()
        self.log: list[LoadedRecord] = []
        self.token = 0

    def new_shard(self) -> ShareStateShard:
        return ShareStateShard(updates_per_snapshot=self.updates_per_snapshot, wall_offset_ms=1_000_000)

    def submit(self, event: object) -> list[StateResult]:
        answers = []
        for action in self.shard.handle(event, now_ms=5):
            if isinstance(action, Append):
                for record in action.records:
                    offset = len(self.log)
                    self.log.append(LoadedRecord(offset=offset, timestamp_ms=0, key=record.key, value=record.value))
                    self.shard.stored(decode(record.key, record.value), offset)
            elif isinstance(action, Reply):
                answers.append(action.response)
        self.shard.check_invariants()
        return answers

    def ask(self, kind: type, **values: object) -> StateResult:
        self.token += 1
        values = {"key": KEY, "exists": True, **values}
        (answer,) = self.submit(kind(token=self.token, **values))
        return answer

    def initialize(self, **values: object) -> StateResult:
        return self.ask(InitializeState, **{"state_epoch": 1, "start_offset": 0, **values})

    def write(self, *batches: StateBatch, **values: object) -> StateResult:
        values = {"state_epoch": 1, "leader_epoch": 4, "start_offset": 0, "delivery_complete_count": 0, **values}
        return self.ask(WriteState, batches=tuple(batches), **values)

    def read(self, leader_epoch: int = 4) -> StateResult:
        return self.ask(ReadState, leader_epoch=leader_epoch)

    def replayed(self, from_offset: int = 0) -> ShareStateShard:
        other = self.new_shard()
        for record in self.log[from_offset:]:
            other.replay(record)
        return other


def test_a_state_that_was_written_is_read_by_the_next_leader() -> None:
    world = World()
    world.initialize(start_offset=10)
    assert world.read().start_offset == 10
    world.write(batch(10, 19), batch(25, 29, 0), start_offset=10, delivery_complete_count=10)
    found = world.read(leader_epoch=5)
    assert found.batches == (batch(10, 19), batch(25, 29, 0))
    assert (found.state_epoch, found.delivery_complete_count) == (1, 10)
    world.write(batch(25, 29), start_offset=20, leader_epoch=5)
    assert world.read(leader_epoch=5).batches == (batch(25, 29),)
    assert world.ask(ReadSummary).start_offset == 20


def test_a_partition_that_was_not_initialized_is_neither_read_nor_written() -> None:
    world = World()
    assert world.read(leader_epoch=-1).error_code is ErrorCode.invalid_request
    assert world.write(batch(0, 1)).error_code is ErrorCode.invalid_request
    assert world.read(leader_epoch=4).error_code is ErrorCode.invalid_request
    assert world.log == []
    assert world.ask(ReadSummary) == StateResult(error_code=ErrorCode.none, start_offset=-1)


def test_only_a_read_fences_earlier_leaders() -> None:
    world = World()
    world.initialize()
    world.read(leader_epoch=5)
    assert world.write(batch(0, 1), leader_epoch=9).error_code is ErrorCode.none
    assert world.write(batch(2, 3), leader_epoch=6).error_code is ErrorCode.none
    assert world.read(leader_epoch=4).error_code is ErrorCode.fenced_leader_epoch
    assert world.read(leader_epoch=-1).error_code is ErrorCode.none, "it asks without an epoch"
    assert world.ask(ReadSummary).leader_epoch == 5


def test_a_write_changes_neither_the_state_epoch_nor_keeps_an_untold_count() -> None:
    world = World()
    world.initialize()
    world.write(batch(0, 1), state_epoch=7, delivery_complete_count=2)
    assert (world.read().state_epoch, world.read().delivery_complete_count) == (1, 2)
    world.write(delivery_complete_count=-1)
    assert world.ask(ReadSummary).delivery_complete_count == -1


def test_an_earlier_leader_is_fenced_once_the_next_has_read() -> None:
    world = World()
    world.initialize()
    world.read(leader_epoch=5)
    assert world.write(batch(0, 1), leader_epoch=4).error_code is ErrorCode.fenced_leader_epoch
    assert world.read(leader_epoch=4).error_code is ErrorCode.fenced_leader_epoch
    world.initialize(state_epoch=2)
    assert world.write(batch(0, 1), leader_epoch=4, state_epoch=2).error_code is ErrorCode.fenced_leader_epoch


def test_an_earlier_state_epoch_is_fenced() -> None:
    world = World()
    world.initialize(state_epoch=3, start_offset=50)
    assert world.write(batch(0, 1), state_epoch=2).error_code is ErrorCode.fenced_state_epoch
    assert world.initialize(state_epoch=2).error_code is ErrorCode.fenced_state_epoch
    assert world.read().start_offset == 50


def test_an_initialization_that_comes_late_does_not_undo_what_was_done() -> None:
    # A group coordinator asks, is cut off, and repeats its request until it gets an answer. Meanwhile its successor has
    # asked too, in the same epoch of the group, and members have begun.
    world = World()
    world.initialize(start_offset=-1)
    world.initialize(start_offset=-1)
    world.read()
    world.write(batch(3, 5), start_offset=3)
    assert world.initialize(start_offset=-1).error_code is ErrorCode.none
    assert (world.read().start_offset, world.read().batches) == (3, (batch(3, 5),))
    world.initialize(start_offset=1)  # an administrator asks for this offset, so it counts
    assert (world.read().start_offset, world.read().batches) == (1, ())
    world.initialize(state_epoch=2, start_offset=-1)
    assert world.read().start_offset == -1


def test_a_write_that_comes_late_does_not_move_the_start_back() -> None:
    # The answer to the first write was lost, and its leader repeated it. The first one was on its way for long.
    world = World()
    world.initialize()
    world.write(batch(0, 4), start_offset=0)
    world.write(start_offset=5)
    world.write(batch(0, 4), start_offset=0)
    assert (world.read().start_offset, world.read().batches) == (5, ())
    assert world.replayed().durable() == world.shard.durable()
    world.initialize(state_epoch=2, start_offset=2)  # new offsets may lie before
    world.write(start_offset=2, state_epoch=2)
    assert world.read().start_offset == 2


@pytest.mark.parametrize("kind", ["initialize", "write", "read", "delete"])
def test_a_partition_that_is_not_there_is_refused(kind: str) -> None:
    world = World()
    world.initialize()
    answers = {
        "initialize": lambda: world.initialize(state_epoch=2, exists=False),
        "write": lambda: world.write(exists=False),
        "read": lambda: world.ask(ReadState, leader_epoch=1, exists=False),
        "delete": lambda: world.ask(DeleteState, exists=False),
    }
    answer = answers[kind]()
    assert answer.error_code is ErrorCode.unknown_topic_or_partition
    assert len(world.log) == 1


def test_every_so_often_a_snapshot_is_written_and_what_was_before_is_redundant() -> None:
    world = World(updates_per_snapshot=2)
    world.initialize()
    for offset in range(0, 40, 10):
        world.write(batch(offset, offset + 9), start_offset=offset)
    kinds = [type(decode(record.key, record.value)[1]) for record in world.log]
    assert kinds == [Snapshot, Update, Update, Snapshot, Update]
    assert world.shard.redundant_offset(len(world.log)) == 3
    assert world.replayed(from_offset=3).durable() == world.shard.durable()


def test_a_partition_that_rests_is_snapshot_anew_so_that_the_log_can_go() -> None:
    world = World()
    world.initialize()
    other = replace(KEY, partition=4)
    world.ask(InitializeState, key=other, state_epoch=1, start_offset=0)
    world.submit(SnapshotStale(before_ms=1_000_000))
    assert world.shard.redundant_offset(len(world.log)) == 0, "nothing is that old"
    world.submit(SnapshotStale(before_ms=1_000_006))
    assert world.shard.redundant_offset(len(world.log)) == 2
    assert world.replayed(from_offset=2).durable() == world.shard.durable()


def test_deleted_topics_and_states_leave_nothing() -> None:
    world = World()
    world.initialize()
    assert world.ask(DeleteState).error_code is ErrorCode.none
    assert world.ask(DeleteState).error_code is ErrorCode.none, "it is deleted already"
    assert world.read(leader_epoch=-1).start_offset == -1
    world.initialize()
    world.submit(TopicsKnown(topic_ids=frozenset({KEY.topic_id})))
    assert world.shard.next_deadline_ms() is None
    world.submit(TopicsKnown(topic_ids=frozenset()))
    assert world.shard.next_deadline_ms() == 0
    world.submit(Tick())
    assert world.shard.next_deadline_ms() is None
    assert world.shard.durable() == {} == world.replayed().durable()
    assert world.shard.redundant_offset(len(world.log)) == len(world.log)


@pytest.mark.parametrize("seed", seeds(30, fast=8))
def test_a_random_life_is_kept_by_its_log(seed: int) -> None:
    rng = random.Random(seed)
    world = World(updates_per_snapshot=rng.randrange(1, 5))
    keys = [replace(KEY, partition=index) for index in range(3)]
    starts: dict[StateKey, int] = {}
    plain: dict[StateKey, dict[int, tuple[int, int]]] = {}
    for _ in range(80):
        key, step = rng.choice(keys), rng.random()
        if step < 0.1 or (key not in starts and step >= 0.15):
            world.ask(InitializeState, key=key, state_epoch=1, start_offset=0)
            starts[key], plain[key] = 0, {}
        elif step < 0.15:
            world.ask(DeleteState, key=key)
            starts.pop(key, None)
            plain.pop(key, None)
        elif step < 0.9:
            start = starts.get(key, 0) + rng.randrange(3)
            first = start + rng.randrange(10)
            news = batch(first, first + rng.randrange(5), rng.choice([0, 2, 4]), rng.randrange(1, 3))
            world.ask(
                WriteState, key=key, state_epoch=1, leader_epoch=1, start_offset=start, delivery_complete_count=0,
                batches=(news,),
            )  # fmt: skip
            starts[key] = start
            known = {offset: was for offset, was in plain.get(key, {}).items() if offset >= start}
            for offset in range(news.first_offset, news.last_offset + 1):
                known[offset] = max(known.get(offset, (-1, -1)), (news.delivery_count, news.state))
            plain[key] = known
        elif key in plain:
            found = world.ask(ReadState, key=key, leader_epoch=1)
            told = {
                offset: (each.delivery_count, each.state)
                for each in found.batches
                for offset in range(each.first_offset, each.last_offset + 1)
            }
            assert told == plain[key]
            assert found.start_offset == starts[key]
        redundant = world.shard.redundant_offset(len(world.log))
        assert world.replayed(from_offset=redundant).durable() == world.shard.durable()


def test_records_survive_their_bytes() -> None:
    snapshot = Snapshot(
        snapshot_epoch=1, state_epoch=2, leader_epoch=3, start_offset=4, delivery_complete_count=5,
        batches=(batch(4, 9),), created_ms=6, written_ms=7,
    )  # fmt: skip
    update = Update(snapshot_epoch=1, leader_epoch=-1, start_offset=-1, delivery_complete_count=-1, batches=())
    for value in (snapshot, update, None):
        written = encode((KEY, value))
        assert decode(written.key, written.value) == (KEY, value)


def test_the_key_is_written_as_kafka_writes_it() -> None:
    assert str(KEY) == "g:AAAAAAAAAAAAAAAAAAAABw:3"
    assert is_key(str(KEY))
    assert not any(map(is_key, ["", "g", "g:t", ":AAAAAAAAAAAAAAAAAAAABw:3", "g:AAAA:3", "g:AAAAAAAAAAAAAAAAAAAABw:x"]))
