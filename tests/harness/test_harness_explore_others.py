"""`harness.explore.execution.other_writers`: what somebody else writes, and how far a reader of it must come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from broker.door.clients import KafkaError
from broker.door.protocol import ErrorCode
from harness.errors import EnvironmentFault
from harness.explore.execution.other_writers import CODECS, Others, Writers
from harness.explore.trial.topics import Topics


@dataclass
class Handle:
    offset: int
    error: KafkaError | None = None

    def get(self, timeout_s: float | None = None) -> Handle:
        if self.error is not None:
            raise self.error
        return self


@dataclass
class Log:
    """A writer whose topic has as many partitions as it is written to. A marker takes an offset."""

    properties: Mapping[str, object]
    values: list[tuple[int, bytes]] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    next_offset: dict[int, int] = field(default_factory=dict)
    open_partitions: set[int] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    left: int = 0
    fails: str = ""
    ends: bool = True

    def send(self, topic: str, value: bytes, key: bytes | None, partition: int) -> Handle:
        self.values.append((partition, value))
        self.keys.append(key)
        offset = self.next_offset.get(partition, 0)
        self.next_offset[partition] = offset + 1
        self.open_partitions.add(partition)
        return Handle(offset)

    def flush(self, timeout_s: float | None = None) -> int:
        self.calls.append("flush")
        return self.left

    def _end(self, call: str) -> None:
        self.calls.append(call)
        if self.fails == call:
            raise KafkaError(ErrorCode.coordinator_not_available, "it is away")
        for partition in self.open_partitions:
            self.next_offset[partition] += 1
        self.open_partitions.clear()

    def init_transactions(self, timeout_s: float | None = None) -> None:
        self.calls.append("init")

    def begin_transaction(self) -> None:
        self.open_partitions.clear()
        self.calls.append("begin")

    def commit_transaction(self, timeout_s: float | None = None) -> None:
        self._end("commit")

    def abort_transaction(self, timeout_s: float | None = None) -> None:
        self._end("abort")

    def close(self, timeout_s: float | None = None) -> None:
        self.calls.append("close")
        if not self.ends:
            raise KafkaError(ErrorCode.request_timed_out, "the sender thread does not end")


def writing(
    *, is_read_uncommitted: bool = False, is_compacted: bool = False
) -> tuple[Others, dict[int, int], list[Log]]:
    """The writers share one log, as they do in a cluster."""
    made: list[Log] = []
    next_offset: dict[int, int] = {}

    def make(properties: Mapping[str, Any]) -> Log:
        made.append(Log(properties, next_offset=next_offset))
        return made[-1]

    ends = dict.fromkeys(range(3), 0)
    writers = Writers("127.0.0.1:1", "id", make=make)
    made_of = Topics(("t",), 3)
    others = Others(writers, made_of, ends, is_read_uncommitted=is_read_uncommitted, is_compacted=is_compacted)
    return others, ends, made


def test_the_end_is_behind_the_last_record_that_the_reader_is_given() -> None:
    others, ends, _ = writing()
    others.write(4)
    assert ends == {0: 2, 1: 1, 2: 1}
    others.write_in_transaction(3, 0, False)  # two offsets in each partition: the record and the marker
    assert ends == {0: 2, 1: 1, 2: 1}
    others.write_in_transaction(3, 0, True)
    assert ends == {0: 5, 1: 4, 2: 4}
    others.write(1)  # a marker is before it
    assert ends == {0: 5, 1: 6, 2: 4}


def test_who_reads_what_is_not_committed_is_given_all_but_the_markers() -> None:
    others, ends, _ = writing(is_read_uncommitted=True)
    others.write_in_transaction(3, 0, False)
    assert ends == {0: 1, 1: 1, 2: 1}
    others.write_in_transaction(1, 0, False)
    assert ends == {0: 3, 1: 1, 2: 1}


def test_what_is_given_up_is_in_the_log_before_it_is_given_up_and_no_value_comes_twice() -> None:
    others, _, made = writing()
    others.write(5, 40)
    others.write_in_transaction(4, 0, False)
    others.write_in_transaction(4, 0, True)
    plain, transactional = made
    assert transactional.calls == ["init", "begin", "flush", "abort", "begin", "flush", "commit"]
    assert transactional.properties["transactional.id"] == "id"
    values = [value for _, value in plain.values + transactional.values]
    assert len(set(values)) == 13
    assert {len(value) for _, value in plain.values} == {40}


@pytest.mark.parametrize("is_committed", [True, False])
def test_after_a_transaction_that_went_wrong_another_writer_begins(is_committed: bool) -> None:
    others, _, made = writing()
    others.write_in_transaction(1, 0, True)
    made[0].fails = "commit" if is_committed else "abort"
    with pytest.raises(EnvironmentFault, match="topic t: what others write: "):
        others.write_in_transaction(1, 0, is_committed)
    assert made[0].calls[-1] == "close"
    others.write_in_transaction(1, 0, True)
    assert made[1].calls == ["init", "begin", "flush", "commit"]


def test_what_is_not_written_in_time_is_a_fault_of_the_environment() -> None:
    others, _, made = writing()
    for _ in CODECS:
        others.write(1)
    made[0].left = 2
    with pytest.raises(EnvironmentFault, match="2 records were not written within 60 s"):
        others.write(3)


def test_what_one_trial_could_not_write_is_not_waited_for_in_the_next_one() -> None:
    """The writer is shared: records for a topic that is gone stayed in it for two minutes, and each flush waited."""
    others, _, made = writing()
    for _ in CODECS:
        others.write(1)
    made[0].left = 2
    with pytest.raises(EnvironmentFault):
        others.write(3)
    assert made[0].calls[-1] == "close"
    for _ in CODECS:
        others.write(3)
    assert len(made) == 3


def test_why_something_was_not_written_is_told_although_the_writer_does_not_end() -> None:
    others, _, made = writing()
    for _ in CODECS:
        others.write(1)
    others.write_in_transaction(1, 0, True)
    for log in made:
        log.left, log.ends = 2, False
    for write in (partial(others.write, 3), partial(others.write_in_transaction, 1, 0, True)):
        with pytest.raises(EnvironmentFault, match="2 records were not written within 60 s"):
            write()


def test_every_second_lot_is_compressed() -> None:
    others, _, made = writing()
    for _ in range(3):
        others.write(3)
    assert [log.properties["compression.type"] for log in made] == ["none", "gzip"]
    assert [len(log.values) for log in made] == [6, 3]


def test_what_compaction_may_take_is_remembered_and_has_a_key() -> None:
    others, ends, made = writing(is_compacted=True)
    others.write(12)
    others.write_in_transaction(3, 0, False)
    assert made[0].keys == [b"key %d" % (number // 3 % 3) for number in range(12)], "each partition has three"
    assert len(others.written) == 15
    assert all(one.is_deleted for one in others.written)
    assert [one.is_aborted for one in others.written] == [False] * 12 + [True] * 3
    assert ends == {0: 4, 1: 4, 2: 4}, "nobody is given what was given up"


def test_elsewhere_records_have_no_key_and_are_not_remembered() -> None:
    others, _, made = writing()
    others.write(3)
    assert made[0].keys == [None] * 3
    assert others.written == []
