"""The consumer's messages inside the classic protocol, against the bytes of Apache Kafka 4.3.1."""

from __future__ import annotations

from uuid import UUID

import pytest

from broker.coordinator.groups.embedded import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    version_of,
)
from broker.coordinator.schema import SchemaError

T, GONE = UUID(int=1), UUID(int=9)
OWNED = {"t": frozenset({0, 1})}


@pytest.mark.parametrize(
    ("version", "data", "owned", "rack"),
    [
        (0, "000000000001000174ffffffff", {}, None),
        (1, "000100000001000174ffffffff00000001000174000000020000000000000001", OWNED, None),
        (2, "000200000001000174ffffffff0000000100017400000002000000000000000100000004", OWNED, None),
        (3, "000300000001000174ffffffff0000000100017400000002000000000000000100000004000172", OWNED, "r"),
        (9, "000900000001000174ffffffff0000000100017400000002000000000000000100000004000172ff", OWNED, "r"),
    ],
)
def test_subscriptions_of_every_version_are_read(version: int, data: str, owned: object, rack: str | None) -> None:
    found = decode_subscription(bytes.fromhex(data))
    assert (found.topics, found.owned, found.rack_id) == (("t",), owned, rack)
    assert version_of(bytes.fromhex(data)) == version


@pytest.mark.parametrize("version", range(4))
def test_assignments_are_written_as_by_kafka_and_come_back(version: int) -> None:
    written = encode_assignment({T: frozenset({1, 0}), GONE: frozenset({5})}, {T: "t"}, version=version)
    assert written.hex() == f"000{version}00000001000174000000020000000000000001ffffffff"
    assert decode_assignment(written) == (OWNED, b"")


def test_no_assignment_is_an_empty_one_and_an_assignors_own_bytes_are_told() -> None:
    assert decode_assignment(b"") == ({}, b"")
    assert decode_assignment(b"\0\0\0\0\0\0\0\0\0\1x") == ({}, b"x")
    assert encode_assignment({}, {}, version=77)[:2] == b"\0\3", "the newest that we know"
    assert encode_assignment({}, {}, version=-1)[:2] == b"\0\0"


def test_damage_is_an_error() -> None:
    whole = bytes.fromhex("000300000001000174ffffffff0000000100017400000002000000000000000100000004000172")
    for end in range(len(whole)):
        with pytest.raises(SchemaError):
            decode_subscription(whole[:end])
    for data in (b"\xff\xff\0\0\0\0\xff\xff\xff\xff", b"\0\0\x7f\xff\xff\xff"):
        with pytest.raises(SchemaError):
            decode_subscription(data)
        with pytest.raises(SchemaError):
            decode_assignment(data)
    assert version_of(b"\0") == 0
