"""Metadata records are Kafka's: the same bytes, the same fields, and a clear refusal of everything else."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.controller import records as schemas
from broker.controller.record_codec import API_KEYS, FRAME_BYTES, decode_record, decode_records, encode_records
from broker.controller.records import (
    NOT_KNOWN,
    OWN_TAGS,
    UNFENCE,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
)
from broker.wire.encoder import FIXED_CODES
from broker.wire.varints import uvarint

sys.path.insert(0, str(Path(__file__).parent))
from metadata_examples import EXAMPLES, OTHER, TOPIC, golden, tag_of

ZERO = UUID(int=0)


def test_every_type_is_in_the_examples_with_every_field_that_we_know() -> None:
    assert {type(each) for each in EXAMPLES} == set(get_args(MetadataRecord)) == set(API_KEYS)
    for kind in API_KEYS:
        for field in fields(kind):
            if not field.metadata.get(NOT_KNOWN):
                values = [getattr(each, field.name) for each in EXAMPLES if type(each) is kind]
                assert any(value != field.default for value in values), (kind, field.name)


def test_the_bytes_are_those_that_apache_kafka_wrote() -> None:
    assert [value.hex() for value in encode_records(EXAMPLES)] == [each["bytes"] for each in golden()]
    assert decode_records(tuple(bytes.fromhex(each["bytes"]) for each in golden())) == EXAMPLES


def test_delegation_tokens_that_an_earlier_version_wrote_are_read_past() -> None:
    """DelegationTokenRecord and RemoveDelegationTokenRecord, as Apache Kafka writes them."""
    token = (
        "010a000b557365723a616c69636509557365723a626f62030b557365723a6361726f6c0a557365723a64617665"
        "0000018bcfe568000000018bcfee8fc00000018bcfe9fbe006746f6b656e00"
    )
    values = encode_records(EXAMPLES[:2])
    of_tokens = (bytes.fromhex(token), bytes.fromhex("011a0006746f6b656e00"))
    assert decode_records((of_tokens[0], values[0], of_tokens[1], values[1])) == EXAMPLES[:2]
    with pytest.raises(ValueError, match="type 10, version 1"):
        decode_records((b"\x01\x0a\x01" + of_tokens[0][3:],))


def test_client_quotas_that_an_earlier_version_wrote_are_read_past() -> None:
    """ClientQuotaRecord, as Apache Kafka writes it: a limit, and one that is removed."""
    limit = (
        "010e00030a636c69656e742d69640000057573657206616c6963650013726571756573745f70657263656e74"
        "61676540290000000000000000"
    )
    removed = "010e0002036970043a3a310010636f6e6e656374696f6e5f7261746500000000000000000100"
    values = encode_records(EXAMPLES[:2])
    assert decode_records((bytes.fromhex(limit), values[0], bytes.fromhex(removed), values[1])) == EXAMPLES[:2]
    with pytest.raises(ValueError, match="type 14, version 1"):
        decode_records((b"\x01\x0e\x01" + bytes.fromhex(removed)[3:],))


def test_records_of_the_version_before_are_read_and_lack_what_was_added() -> None:
    """The log of a cluster that an earlier version of this broker wrote."""
    before = BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=9, fenced=UNFENCE, log_directories=(TOPIC,))
    (value,) = encode_records((before,))
    assert value[2] == 3
    assert decode_record(value[:2] + b"\x02" + value[3:]) == before
    for wrong in (1, 4):
        with pytest.raises(ValueError, match="version"):
            decode_record(value[:2] + bytes([wrong]) + value[3:])


# -- any record ---------------------------------------------------------------------------------------------------

IDS = st.uuids(allow_nil=False)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
PLAIN: dict[str, st.SearchStrategy[Any]] = {
    **{
        kind: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        for kind, bits in (("int8", 8), ("int16", 16), ("int32", 32), ("int64", 64))
    },
    "uint16": st.integers(0, 2**16 - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "uuid": IDS,
    "string": TEXT,
    "bytes": st.binary(max_size=700),
}


def values_of(field: Any) -> st.SearchStrategy[Any]:
    text = str(field.type)
    if "kafka_type" not in field.metadata:
        (kind, _) = get_args(field.type)
        return st.lists(any_of(kind), max_size=4).map(tuple)
    plain = PLAIN[field.metadata["kafka_type"]]
    if "UUID | None, ..." in text:  # in a list of ids, None is the zero id
        plain, text = st.none() | plain, text.replace("UUID | None, ...", "UUID, ...")
    if "tuple" in text:
        plain = st.lists(plain, max_size=5).map(tuple)
    return st.none() | plain if "None" in text else plain


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    known = [each for each in fields(kind) if not each.metadata.get(NOT_KNOWN)]
    return st.builds(kind, **{each.name: values_of(each) for each in known})


RECORDS = st.one_of([any_of(kind) for kind in API_KEYS])


@given(st.lists(RECORDS, max_size=6).map(tuple))
def test_any_records_go_there_and_back(records: tuple[MetadataRecord, ...]) -> None:
    assert decode_records(encode_records(records)) == records


@given(RECORDS, st.data())
def test_a_record_that_is_cut_or_continued_is_refused(record: MetadataRecord, data: st.DataObject) -> None:
    (value,) = encode_records((record,))
    size = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(ValueError, match=r"damaged|no frame|frame version|ends at"):
        decode_record(value[:size])
    with pytest.raises(ValueError, match="ends at byte"):
        decode_record(value + b"\0")


@given(st.sampled_from(sorted(API_KEYS.values())), st.binary(max_size=80))
def test_whatever_follows_a_frame_it_is_read_or_refused(api_key: int, rest: bytes) -> None:
    version = next(kind.__version__ for kind, key in API_KEYS.items() if key == api_key)
    with contextlib.suppress(ValueError):
        decode_record(bytes([1, api_key, version]) + rest)


# -- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"", "has no frame"),
        (b"\x01\x02", "has no frame"),
        (b"\xff\xff\xff\xff\xff\xff", "has no frame"),
        (b"\x02\x02\x00", "frame version 2, type 2, version 0: expected frame version 1"),
        (b"\x01\x02\x01", "type 2, version 1: expected .* TopicRecord 0"),
        (b"\x01\x15\x00\x00", "type 21, version 0"),
        (b"\x01\x80\x01\x00", "type 128, version 0"),
        (b'[["TopicRecord",{"name":"t"}]]', "JSON, which an earlier version .* empty log directories"),
    ],
)
def test_a_frame_that_is_not_ours_is_named(value: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        decode_record(value)


def test_a_record_without_an_id_is_refused() -> None:
    (value,) = encode_records((TopicRecord(name="t", topic_id=TOPIC),))
    with pytest.raises(ValueError, match="topic_id of a TopicRecord is the zero id"):
        decode_record(value.replace(TOPIC.bytes, ZERO.bytes))
    _, value = (each for each in encode_records(EXAMPLES) if each.count(TOPIC.bytes) and each[1] == 0)
    with pytest.raises(ValueError, match="offline_directories of a RegisterBrokerRecord hold the zero id"):
        decode_record(value.replace(TOPIC.bytes, ZERO.bytes))
    with pytest.raises(ValueError, match="cordoned_directories of a RegisterBrokerRecord hold the zero id"):
        decode_record(value.replace(OTHER.bytes, ZERO.bytes, 1))


def test_a_field_that_means_nothing_here_is_refused() -> None:
    partition = {"partition": 0, "topic_id": TOPIC, "replicas": (1,), "isr": (1,), "leader": 1}
    epochs = {"leader_epoch": 0, "partition_epoch": 0}
    recovering = PartitionRecord(**partition, **epochs, leader_recovery_state=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="PartitionRecord with leader_recovery_state 1: only 0"):
        decode_records(encode_records((recovering,)))
    feature = BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)
    broker = RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=TOPIC,
        broker_epoch=1,
        endpoints=(),
        features=(feature,),
        rack=None,
        fenced=True,
        in_controlled_shutdown=False,
    )
    with pytest.raises(ValueError, match="RegisterBrokerRecord with features"):
        decode_records(encode_records((broker,)))


def test_a_tagged_field_with_an_unknown_number_is_skipped() -> None:
    record = TopicRecord(name="t", topic_id=TOPIC)
    (value,) = encode_records((record,))
    assert value.endswith(b"\0")
    assert decode_record(value[:-1] + b"\1" + uvarint(OWN_TAGS + 77) + b"\3xyz") == record


def test_a_tagged_field_must_be_as_long_as_it_says() -> None:
    (value,) = (each for each in encode_records(EXAMPLES) if each.endswith(b"\0\0\0\2\7\5\2\0\0\0\1"))
    with pytest.raises(ValueError, match="tagged field 7"):
        decode_record(value[:-6] + b"\6" + value[-5:] + b"\0")


@pytest.mark.parametrize("count", [2**31 - 1, 2**28, 100])
def test_a_count_is_checked_before_anything_is_built(count: int) -> None:
    place = PartitionRecord(
        topic_id=TOPIC, partition=0, replicas=(7, 8), isr=(7,), leader=7, leader_epoch=0, partition_epoch=0
    )
    (value,) = encode_records((place,))
    position = value.index(b"\0\0\0\7\0\0\0\x08") - 1
    with pytest.raises(ValueError, match=r"array|element"):
        decode_record(value[:position] + uvarint(count) + value[position + 1 :])


@pytest.mark.parametrize(
    "record",
    [
        FeatureLevelRecord(name="x", level=2**15),
        RemoveUserScramCredentialRecord(name="x" * 32_768, mechanism=1),
        TopicRecord(name=None, topic_id=TOPIC),  # type: ignore[arg-type]
    ],
)
def test_what_kafkas_schema_cannot_hold_is_not_written(record: MetadataRecord) -> None:
    with pytest.raises(ValueError, match="cannot be encoded"):
        encode_records((record,))


def test_frames_are_as_long_as_the_reader_takes_them() -> None:
    assert all(max(key, kind.__version__) < 128 for kind, key in API_KEYS.items())
    assert len(uvarint(1) + uvarint(127) + uvarint(127)) == FRAME_BYTES


def test_own_tags_are_beyond_those_of_kafka() -> None:
    tags = {tag_of(field) for kind in API_KEYS for field in fields(kind)} - {None}
    assert {tag for tag in tags if tag is not None and tag >= OWN_TAGS} == {schemas.OFFLINE_DIRECTORIES_TAG}
    assert set(PLAIN) - {"string", "bytes"} <= set(FIXED_CODES)
