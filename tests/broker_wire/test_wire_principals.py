"""Principals in bytes: as Kafka's own schema writes them, and nothing else is read."""

from __future__ import annotations

import io
import random

import pytest
from kio.schema.default_principal_data.v0.data import DefaultPrincipalData
from kio.serial import entity_writer

from broker.wire.principals import decode_principal, encode_principal


@pytest.mark.parametrize("name", ["alice", "a:b", "ä" * 200])
def test_as_in_the_schema_of_kafka(name: str) -> None:
    expected = written_by_kio(name, is_by_token=False)
    assert encode_principal("User", name) == expected
    assert decode_principal(expected) == ("User", name)
    assert decode_principal(written_by_kio(name, is_by_token=True)) is None, "there are no delegation tokens"


def written_by_kio(name: str, *, is_by_token: bool) -> bytes:
    buffer = io.BytesIO()
    entity_writer(DefaultPrincipalData)(
        buffer, DefaultPrincipalData(type_="User", name=name, token_authenticated=is_by_token)
    )
    return b"\x00\x00" + buffer.getvalue()


def test_what_is_no_principal_is_none() -> None:
    whole = encode_principal("User", "alice")
    assert [decode_principal(whole[:end]) for end in range(len(whole))] == [None] * len(whole)
    for wrong in (
        whole + b"\x00",
        b"\x00\x01" + whole[2:],
        whole[:-1] + b"\x01",
        whole[:-2] + b"\x02\x00",
        encode_principal("", "alice"),
        encode_principal("User", ""),
        whole[:2] + b"\xff\xff\xff\xff\xff\xff" + whole[3:],
        whole.replace(b"alice", b"\xff\xff\xff\xff\xff"),
    ):
        assert decode_principal(wrong) is None, wrong


def test_no_bytes_raise() -> None:
    rng = random.Random(1)
    for _ in range(2_000):
        decode_principal(b"\x00\x00" + rng.randbytes(rng.randrange(30)))
