"""The consumer's core: positions, plans by leader, batches in part, errors, and answers that came too late."""

from __future__ import annotations

import random

import pytest

from broker.client.core.batch import TopicPartition
from broker.client.core.config import parse_consumer
from broker.client.core.errors import KafkaError, LogTruncationError
from broker.client.core.fetch_state import EARLIEST, LATEST, FetchPosition, FetchResult, Validation
from broker.client.core.fetcher import FetcherCore
from broker.client.core.metadata import BrokerAddress, MetadataAnswer, MetadataCache, PartitionState, TopicState
from broker.wire.batch import set_base_offset_and_epoch
from broker.wire.errors import ErrorCode
from broker.wire.records import encode_batch

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def make(reset: str = "earliest", **properties: object) -> FetcherCore:
    """Partition 0 led by broker 1, partition 1 by broker 2, leader epoch 4."""
    return make_with_metadata(reset, **properties)[0]


def lead(metadata: MetadataCache, leader_epoch: int) -> None:
    """Partition 0 led by broker 1, partition 1 by broker 2, both in this epoch."""
    states = tuple(PartitionState(partition=index, leader=index + 1, leader_epoch=leader_epoch) for index in (0, 1))
    brokers = tuple(BrokerAddress(broker_id=each, host="h", port=1) for each in (1, 2))
    metadata.on_answer(MetadataAnswer(brokers=brokers, topics=(TopicState(name="t", partitions=states),)), 0)


def make_with_metadata(reset: str = "earliest", **properties: object) -> tuple[FetcherCore, MetadataCache]:
    metadata = MetadataCache(max_age_ms=10**9, backoff_first_ms=1, backoff_max_ms=1, rng=random.Random(1))
    lead(metadata, 4)
    settings = {"bootstrap.servers": "h:1", "auto.offset.reset": reset, **properties}
    core = FetcherCore(parse_consumer(settings), metadata, random.Random(1))
    core.assign([ONE, TWO])
    return core, metadata


def batch(base_offset: int, count: int, leader_epoch: int = 4) -> bytes:
    values = [b"%d" % (base_offset + index) for index in range(count)]
    encoded = bytearray(encode_batch(values, timestamps_ms=7, base_offset=base_offset))
    set_base_offset_and_epoch(encoded, base_offset, leader_epoch)
    return bytes(encoded)


def answer(core: FetcherCore, partition: TopicPartition, result: FetchResult, now_ms: int = 0) -> None:
    plan = core.plan(now_ms)
    [node] = [node for node, positions in plan.items() if partition in positions]
    core.on_sent(node, plan[node])
    core.on_answer(node, {partition: result}, now_ms)
    core.check_invariants()


def test_nothing_is_fetched_before_a_position_is_known() -> None:
    core = make()
    assert core.plan(0) == {}
    assert core.resets(0) == {ONE: EARLIEST, TWO: EARLIEST}
    core.on_reset(ONE, 10)
    assert core.plan(0)[1][ONE].offset == 10
    assert core.plan(0)[1][ONE].leader_epoch == 4
    assert 2 not in core.plan(0)


def test_one_fetch_per_broker_and_none_for_a_partition_with_unread_records() -> None:
    core = make()
    core.seek(ONE, 0)
    core.seek(TWO, 0)
    plan = core.plan(0)
    assert sorted(plan) == [1, 2]
    core.on_sent(1, plan[1])
    assert sorted(core.plan(0)) == [2]
    core.on_answer(1, {ONE: FetchResult(records=batch(0, 3))}, 0)
    assert sorted(core.plan(0)) == [2]
    core.take(10)
    assert core.plan(0)[1][ONE].offset == 3


def test_records_before_the_position_are_left_out_of_the_first_batch() -> None:
    core = make()
    core.seek(ONE, 7)
    answer(core, ONE, FetchResult(records=batch(5, 5) + batch(10, 2)))
    assert [record.offset for record in core.take(100)] == [7, 8, 9, 10, 11]
    assert core.position(ONE) == 12


def test_take_is_limited_and_the_position_is_that_of_the_next_record() -> None:
    core = make()
    core.seek(ONE, 0)
    answer(core, ONE, FetchResult(records=batch(0, 5)))
    assert [record.value for record in core.take(2)] == [b"0", b"1"]
    assert core.position(ONE) == 2
    assert len(core.take(10)) == 3
    assert core.position(ONE) == 5


def test_a_torn_batch_at_the_end_is_fetched_again() -> None:
    core = make()
    core.seek(ONE, 0)
    answer(core, ONE, FetchResult(records=batch(0, 2) + batch(2, 5)[:-3]))
    assert len(core.take(10)) == 2
    assert core.plan(0)[1][ONE].offset == 2


def test_an_answer_to_a_position_left_by_a_seek_is_dropped() -> None:
    core = make()
    core.seek(ONE, 0)
    core.on_sent(1, core.plan(0)[1])
    core.seek(ONE, 100)
    core.on_answer(1, {ONE: FetchResult(records=batch(0, 5))}, 0)
    assert core.take(10) == []
    assert core.position(ONE) == 100


@pytest.mark.parametrize(("policy", "timestamp"), [("earliest", EARLIEST), ("latest", LATEST)])
def test_out_of_range_resets_by_policy(policy: str, timestamp: int) -> None:
    core = make(policy)
    core.seek(ONE, 99)
    answer(core, ONE, FetchResult(error_code=ErrorCode.offset_out_of_range))
    assert core.resets(0)[ONE] == timestamp
    assert core.position(ONE) is None


def test_out_of_range_without_policy_is_raised_once() -> None:
    core = make("none")
    assert core.resets(0) == {}
    core.seek(ONE, 99)
    answer(core, ONE, FetchResult(error_code=ErrorCode.offset_out_of_range))
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        core.take(1)
    assert core.take(1) == []


def test_a_leader_error_backs_off_and_goes_on_at_the_same_offset() -> None:
    core = make()
    core.seek(ONE, 5)
    answer(core, ONE, FetchResult(error_code=ErrorCode.not_leader_or_follower))
    assert core.plan(0) == {}
    retry_ms = core.next_retry_ms(0)
    assert retry_ms is not None
    assert core.plan(retry_ms)[1][ONE].offset == 5


def test_a_lost_connection_backs_off_and_fetches_again() -> None:
    core = make()
    core.seek(ONE, 5)
    core.on_sent(1, core.plan(0)[1])
    core.on_failed(1, 0)
    assert core.plan(0) == {}
    assert core.plan(10_000)[1][ONE].offset == 5


def test_a_batch_with_a_wrong_crc_is_raised_and_not_skipped() -> None:
    core = make()
    core.seek(ONE, 0)
    damaged = bytearray(batch(0, 3))
    damaged[-2] ^= 1
    answer(core, ONE, FetchResult(records=bytes(damaged)))
    with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
        core.take(10)
    assert core.position(ONE) == 0


def test_partitions_that_stay_assigned_keep_their_position() -> None:
    core = make()
    core.seek(ONE, 5)
    core.assign([ONE])
    assert core.position(ONE) == 5
    with pytest.raises(KafkaError, match="t-1 is not assigned"):
        core.position(TWO)


# -- KIP-320: a position is validated before a leader of another epoch is read from ---------------------------------


def read_ten_records(reset: str) -> tuple[FetcherCore, MetadataCache, Validation]:
    """Ten records of epoch 4 were read, then epoch 6 began."""
    core, metadata = make_with_metadata(reset)
    core.seek(ONE, 0)
    answer(core, ONE, FetchResult(records=batch(0, 10)))
    assert len(core.take(100)) == 10
    lead(metadata, 6)
    assert core.plan(0) == {}
    return core, metadata, core.validations(0)[ONE]


def test_after_an_unclean_truncation_no_record_is_passed_over() -> None:
    """The new leader had only seven of the ten records and has appended 2,000 of its own since."""
    core, _, asked = read_ten_records("latest")
    assert asked == Validation(offset=10, offset_epoch=4, leader_epoch=6)
    core.on_validated(ONE, asked, 4, 7, 0)
    core.check_invariants()
    assert core.position(ONE) == 7
    again = core.validations(0)[ONE]  # the chain says epoch 4 there too
    core.on_validated(ONE, again, 4, 7, 0)
    assert core.plan(0)[1][ONE] == FetchPosition(offset=7, leader_epoch=6)
    answer(core, ONE, FetchResult(records=batch(7, 2000, leader_epoch=6)))
    assert [record.offset for record in core.take(3000)] == list(range(7, 2007))


def test_a_log_that_still_has_what_was_read_is_read_on() -> None:
    core, metadata, asked = read_ten_records("none")
    core.on_validated(ONE, asked, 4, 10, 0)
    assert core.plan(0)[1][ONE] == FetchPosition(offset=10, leader_epoch=6)
    answer(core, ONE, FetchResult(records=batch(10, 1, leader_epoch=6)))
    assert len(core.take(10)) == 1
    assert core.position_epoch(ONE) == 6
    assert 1 in core.plan(0)  # read from this leader: nothing to ask
    lead(metadata, 8)
    assert core.validations(0)[ONE].offset_epoch == 6


def test_without_a_reset_policy_a_truncation_is_an_error_until_the_caller_seeks() -> None:
    core, _, asked = read_ten_records("none")
    core.on_validated(ONE, asked, 4, 7, 0)
    with pytest.raises(LogTruncationError, match=r"t-0: the position is 10, .* at 7") as raised:
        core.take(1)
    assert (raised.value.offset, raised.value.divergent_offset) == (10, 7)
    assert core.position(ONE) == 10
    assert core.plan(10_000) == {}
    core.seek(ONE, 7)
    assert core.plan(10_000)[1][ONE].offset == 7


def test_a_leader_that_knows_no_such_epoch_leaves_the_policy() -> None:
    core, _, asked = read_ten_records("earliest")
    core.on_validated(ONE, asked, -1, -1, 0)
    assert core.resets(0)[ONE] == EARLIEST


def test_records_fetched_before_the_change_are_handed_out_and_then_validated() -> None:
    core, metadata = make_with_metadata()
    core.seek(ONE, 0)
    answer(core, ONE, FetchResult(records=batch(0, 10)))
    lead(metadata, 6)
    assert core.validations(0) == {}
    assert len(core.take(4)) == 4
    assert core.validations(0) == {}
    assert len(core.take(100)) == 6
    assert core.validations(0)[ONE].offset == 10


def test_a_seek_makes_an_answer_to_an_older_question_worthless() -> None:
    core, _, asked = read_ten_records("latest")
    core.seek(ONE, 3)
    core.on_validated(ONE, asked, 4, 7, 0)
    assert core.position(ONE) == 3


def test_a_committed_epoch_is_validated_like_one_that_was_read() -> None:
    core = make()
    core.seek(ONE, 10, leader_epoch=2)
    assert core.validations(0)[ONE] == Validation(offset=10, offset_epoch=2, leader_epoch=4)


def test_a_broker_without_the_request_is_believed() -> None:
    core, _, asked = read_ten_records("latest")
    core.on_validation_unsupported(ONE, asked)
    assert core.plan(0)[1][ONE].offset == 10


# -- reading from followers (KIP-392) ---------------------------------------------------------------------------------


def sent_to_a_follower(**properties: object) -> tuple[FetcherCore, MetadataCache]:
    """Both partitions stand at 0, and broker 1 has named broker 2 for partition 0."""
    core, metadata = make_with_metadata(**properties)
    core.seek(ONE, 0)
    answer(core, ONE, FetchResult(preferred_read_replica=2))
    return core, metadata


def test_a_follower_that_the_leader_names_is_read_from_until_the_metadata_is_old() -> None:
    core, _ = sent_to_a_follower(**{"metadata.max.age.ms": 1_000})
    assert core.read_replica(ONE) == 2
    assert core.plan(0) == {2: {ONE: FetchPosition(offset=0, leader_epoch=4)}}
    answer(core, ONE, FetchResult(records=batch(0, 3)))
    assert [record.offset for record in core.take(10)] == [0, 1, 2]
    assert list(core.plan(999)) == [2]
    assert list(core.plan(1_000)) == [1]
    assert core.read_replica(ONE) is None


def test_one_fetch_of_a_broker_is_for_what_it_leads_and_what_it_follows() -> None:
    core, _ = sent_to_a_follower()
    core.seek(TWO, 5)
    plan = core.plan(0)
    assert {node: sorted(positions) for node, positions in plan.items()} == {2: [ONE, TWO]}


@pytest.mark.parametrize(
    "code", [ErrorCode.not_leader_or_follower, ErrorCode.offset_not_available, ErrorCode.offset_out_of_range]
)
def test_after_an_error_of_a_follower_the_leader_is_asked_and_the_position_stays(code: ErrorCode) -> None:
    core, _ = sent_to_a_follower()
    answer(core, ONE, FetchResult(error_code=int(code)))
    assert core.resets(10**6) == {TWO: EARLIEST}, "not even an offset out of range resets the position"
    assert core.plan(10**6) == {1: {ONE: FetchPosition(offset=0, leader_epoch=4)}}
    core.take(1)
    answer(core, ONE, FetchResult(error_code=int(ErrorCode.offset_out_of_range)), 10**6)
    assert ONE in core.resets(10**7), "of the leader it does"


def test_a_follower_is_left_when_its_connection_is_lost_or_another_leader_is_elected_or_it_is_gone() -> None:
    core, _ = sent_to_a_follower()
    core.on_sent(2, core.plan(0)[2])
    core.on_failed(2, 0)
    assert list(core.plan(10**6)) == [1]

    core, metadata = sent_to_a_follower()
    lead(metadata, 5)
    assert list(core.plan(0)) == [1]

    core, metadata = sent_to_a_follower()
    states = (PartitionState(partition=0, leader=1, leader_epoch=4),)
    alone = (BrokerAddress(broker_id=1, host="h", port=1),)
    metadata.on_answer(MetadataAnswer(brokers=alone, topics=(TopicState(name="t", partitions=states),)), 0)
    assert list(core.plan(0)) == [1]


def test_a_follower_that_no_metadata_names_yet_is_asked_about() -> None:
    core, metadata = make_with_metadata()
    core.seek(ONE, 0)
    answer(core, ONE, FetchResult(preferred_read_replica=7))
    assert metadata.next_request_ms() is not None
    assert core.plan(0) == {}, "the leader would name it again, without end"
    assert list(core.plan(10**6)) == [1]
