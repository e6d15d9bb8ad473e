"""Records of `__transaction_state`: bytes by Kafka's schema, both value versions, damage."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.coordinator.schema import SchemaError
from broker.coordinator.transactions.metadata import Transaction
from broker.coordinator.transactions.records import decode_key, decode_value, encode, encode_key, tombstone
from broker.coordinator.transactions.types import TransactionState
from tests.amount import examples

ONGOING = Transaction(
    transactional_id="x",
    producer_id=7,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=frozenset({("t", 1), ("t", 0), ("s", 5)}),
    last_update_ms=1_000,
    start_ms=900,
    client_transaction_version=2,
)


def test_bytes_are_those_of_kafkas_schema() -> None:
    record = encode(ONGOING)
    assert record.key == b"\0\0" + b"\0\1x"
    assert record.value == (
        b"\0\1"  # version
        + (7).to_bytes(8, "big")
        + b"\0\3"
        + (60_000).to_bytes(4, "big")
        + b"\1"  # ONGOING
        + b"\3"  # two topics
        + b"\2s\2" + (5).to_bytes(4, "big") + b"\0"
        + b"\2t\3" + (0).to_bytes(4, "big") + (1).to_bytes(4, "big") + b"\0"
        + (1_000).to_bytes(8, "big")
        + (900).to_bytes(8, "big")
        + b"\1\2\2\0\2"  # one tagged field: 2, two bytes, version 2
    )  # fmt: skip


def test_empty_state_has_null_partitions() -> None:
    empty = Transaction(
        transactional_id="x",
        producer_id=7,
        producer_epoch=0,
        timeout_ms=1,
        state=TransactionState.EMPTY,
        last_update_ms=1,
    )
    value = encode(empty).value
    assert value is not None
    assert value[17:18] == b"\0"
    assert decode_value("x", value) == empty


def test_version_0_is_read() -> None:
    value = (
        b"\0\0" + (7).to_bytes(8, "big") + b"\0\3" + (60_000).to_bytes(4, "big") + b"\4"
        + (1).to_bytes(4, "big") + b"\0\1t" + (1).to_bytes(4, "big") + (9).to_bytes(4, "big")
        + (1_000).to_bytes(8, "big") + (900).to_bytes(8, "big")
    )  # fmt: skip
    transaction = decode_value("x", value)
    assert transaction.state is TransactionState.COMPLETE_COMMIT
    assert transaction.partitions == {("t", 9)}
    assert transaction.client_transaction_version == 0


LEGACY = replace(ONGOING, client_transaction_version=1)


def test_at_level_0_a_transaction_is_written_in_version_0() -> None:
    value = encode(LEGACY, level=0).value
    assert value == (
        b"\0\0" + (7).to_bytes(8, "big") + b"\0\3" + (60_000).to_bytes(4, "big") + b"\1"
        + (2).to_bytes(4, "big")
        + b"\0\1s" + (1).to_bytes(4, "big") + (5).to_bytes(4, "big")
        + b"\0\1t" + (2).to_bytes(4, "big") + (0).to_bytes(4, "big") + (1).to_bytes(4, "big")
        + (1_000).to_bytes(8, "big") + (900).to_bytes(8, "big")
    )  # fmt: skip
    assert decode_value("x", value) == replace(LEGACY, client_transaction_version=0)
    empty = encode(replace(LEGACY, state=TransactionState.EMPTY, partitions=frozenset()), level=0).value
    assert empty is not None
    assert empty[17:21] == b"\xff" * 4, "null, as Kafka writes it"
    assert decode_value("x", empty).partitions == frozenset()


@pytest.mark.parametrize(
    "more", [{"client_transaction_version": 2}, {"previous_producer_id": 6}, {"next_producer_id": 8}]
)
def test_at_level_0_nothing_is_dropped_that_its_end_needs(more: dict[str, int]) -> None:
    transaction = replace(LEGACY, **more)  # type: ignore[arg-type]  # integers all
    assert encode(transaction, level=0) == encode(transaction, level=2)


def test_key_of_another_version_is_skipped_and_a_tombstone_has_no_value() -> None:
    assert decode_key(encode_key("ä")) == "ä"
    assert decode_key(b"\0\1\0\1x") is None
    assert tombstone("x").value is None


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\2", b"\0\1\0\0", encode(ONGOING).value[:-1]])  # type: ignore[index]
def test_torn_or_unknown_value_is_an_error(value: bytes) -> None:
    with pytest.raises(SchemaError):
        decode_value("x", value)


def test_unknown_state_is_an_error() -> None:
    value = encode(ONGOING).value
    assert value is not None
    with pytest.raises(SchemaError, match="unknown state 9"):
        decode_value("x", value[:16] + b"\x09" + value[17:])


int64 = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=examples(60), deadline=None)
@given(
    producer_id=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 2**15 - 1),
    timeout_ms=st.integers(1, 2**31 - 1),
    state=st.sampled_from(TransactionState),
    partitions=st.frozensets(st.tuples(st.text(min_size=1, max_size=5), st.integers(0, 2**31 - 1)), max_size=20),
    times=st.tuples(int64, int64),
    ids=st.tuples(int64, int64),
    next_epoch=st.integers(-1, 2**15 - 1),
    version=st.integers(0, 2),
)
def test_every_transaction_comes_back(
    producer_id: int,
    epoch: int,
    timeout_ms: int,
    state: TransactionState,
    partitions: frozenset[tuple[str, int]],
    times: tuple[int, int],
    ids: tuple[int, int],
    next_epoch: int,
    version: int,
) -> None:
    transaction = Transaction(
        transactional_id="some id",
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=timeout_ms,
        state=state,
        partitions=frozenset() if state is TransactionState.EMPTY else partitions,
        last_update_ms=times[0],
        start_ms=times[1],
        previous_producer_id=ids[0],
        next_producer_id=ids[1],
        next_producer_epoch=next_epoch,
        client_transaction_version=version,
    )
    value = encode(transaction).value
    assert value is not None
    assert decode_value("some id", value) == transaction
