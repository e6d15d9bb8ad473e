"""`harness.tape.transactions` and the log below it: what is in a transaction, and what becomes of it."""

from __future__ import annotations

from broker.wire.records import encode_batch
from harness.tape.partitions import Partitions
from harness.tape.transactions import PRODUCER_ID, Transactions

ID = "tape-id"
FENCED, WRONG_EPOCH, NOT_IN, UNKNOWN_ID = 90, 47, 48, 49


def batch(producer_id: int, epoch: int, sequence: int, *values: bytes) -> bytes:
    return encode_batch(
        list(values),
        timestamps_ms=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )


def made(partitions: int = 2) -> tuple[Partitions, Transactions, int, int]:
    log = Partitions(partitions, 0)
    transactions = Transactions(log)
    code, producer_id, epoch = transactions.begin_producer(ID, -1, -1)
    assert (code, epoch) == (0, 0)
    return log, transactions, producer_id, epoch


def end(transactions: Transactions, producer_id: int, epoch: int, is_commit: bool, is_raising: bool = False) -> int:
    return transactions.end(ID, producer_id, epoch, is_commit=is_commit, is_raising=is_raising)[0]


def test_a_transaction_is_seen_as_a_whole_when_it_is_committed_and_never_when_it_is_given_up() -> None:
    log, transactions, producer_id, epoch = made()
    for number, is_commit in enumerate((True, False)):
        assert transactions.add(ID, producer_id, epoch, [0]) == 0
        assert transactions.may_append(producer_id, epoch, 0, is_adding=False) == 0
        log.append(0, batch(producer_id, epoch, number, b"%d" % number))
        first = 2 * number
        assert log.stable_ends[0] == first
        assert log.fetch(0, first, 1 << 20, is_committed=True) == b"", "it is open"
        assert log.fetch(0, first, 1 << 20) != b""
        assert end(transactions, producer_id, epoch, is_commit) == 0
        assert log.stable_ends[0] == log.ends[0] == first + 2, "behind its marker"
    assert [(one.value, one.is_aborted) for one in log.logged()] == [(b"0", False), (b"1", True)]
    assert log.aborted(0, 0) == [(producer_id, 2)]
    assert log.aborted(0, 4) == []
    assert log.visible_ends == {0: 1, 1: 0}


def test_records_are_taken_only_for_a_partition_that_is_in_the_transaction() -> None:
    _, transactions, producer_id, epoch = made()
    assert transactions.may_append(producer_id, epoch, 0, is_adding=False) == NOT_IN
    assert transactions.add(ID, producer_id, epoch, [0]) == 0
    assert transactions.may_append(producer_id, epoch, 1, is_adding=False) == NOT_IN
    assert transactions.may_append(producer_id, epoch, 1, is_adding=True) == 0, "from version 2 on Produce adds it"
    assert transactions.may_append(7, epoch, 0, is_adding=True) == UNKNOWN_ID


def test_a_new_producer_gives_up_what_the_one_before_has_left_open_and_fences_it() -> None:
    log, transactions, producer_id, epoch = made()
    transactions.add(ID, producer_id, epoch, [1])
    log.append(1, batch(producer_id, epoch, 0, b"left"))
    code, same, newer = transactions.begin_producer(ID, -1, -1)
    assert (code, same, newer) == (0, producer_id, 1)
    assert [(one.value, one.is_aborted) for one in log.logged()] == [(b"left", True)]
    assert transactions.may_append(producer_id, epoch, 1, is_adding=False) == WRONG_EPOCH
    assert transactions.add(ID, producer_id, epoch, [1]) == FENCED
    assert end(transactions, producer_id, epoch, True) == FENCED
    assert transactions.begin_producer(ID, producer_id, epoch)[0] == FENCED
    assert transactions.begin_producer(ID, producer_id, newer)[:2] == (0, producer_id)


def test_an_end_that_is_asked_for_again_is_told_the_same_again() -> None:
    _, transactions, producer_id, epoch = made()
    assert end(transactions, producer_id, epoch, True) == NOT_IN, "there is none"
    transactions.add(ID, producer_id, epoch, [0])
    assert end(transactions, producer_id, epoch, True) == 0
    assert end(transactions, producer_id, epoch, True) == 0
    assert end(transactions, producer_id, epoch, False) == NOT_IN


def test_from_version_2_on_each_end_raises_the_epoch() -> None:
    _, transactions, producer_id, epoch = made()
    transactions.add(ID, producer_id, epoch, [0])
    assert transactions.end(ID, producer_id, epoch, is_commit=True, is_raising=True) == (0, producer_id, 1)
    assert transactions.end(ID, producer_id, epoch, is_commit=True, is_raising=True) == (0, producer_id, 1)
    assert transactions.end(ID, producer_id, 1, is_commit=False, is_raising=True) == (0, producer_id, 2)
    assert end(transactions, producer_id, epoch, True) == FENCED


def test_a_producer_without_a_transactional_id_has_no_transactions() -> None:
    _, transactions, _, _ = made()
    assert transactions.begin_producer(None, -1, -1) == (0, PRODUCER_ID, 0)
    assert transactions.begin_producer(None, PRODUCER_ID, 0) == (0, PRODUCER_ID, 1)


def test_others_write_in_transactions_and_what_they_give_up_is_in_the_log() -> None:
    log = Partitions(2, 2)
    log.write_others_in_transaction(2, 0, is_committed=False)
    assert log.visible_ends == {0: 1, 1: 1}
    log.write_others_in_transaction(1, 0, is_committed=True)
    assert log.visible_ends == {0: 4, 1: 1}
    assert [(one.partition, one.offset, one.value, one.is_aborted) for one in log.logged()] == [
        (0, 0, b"other/0", False),
        (0, 1, b"other/2", True),
        (0, 3, b"other/4", False),
        (1, 0, b"other/1", False),
        (1, 1, b"other/3", True),
    ]
    uncommitted = Partitions(1, 0, is_read_uncommitted=True)
    uncommitted.write_others_in_transaction(1, 0, is_committed=False)
    assert uncommitted.visible_ends == {0: 1}
