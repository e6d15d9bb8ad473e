"""Records of `__consumer_offsets`: they come back as they were, and old versions are read. That Kafka's own tool reads
them is on docs/reference/compatibility.md."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.coordinator.groups.record_codec import decode, encode
from broker.coordinator.groups.records import (
    ClassicGroupKey,
    ClassicGroupValue,
    ClassicMemberValue,
    CurrentMemberKey,
    CurrentMemberValue,
    GroupEpochKey,
    GroupEpochValue,
    MemberKey,
    MemberValue,
    OffsetKey,
    OffsetValue,
    PatternKey,
    PatternValue,
    Record,
    TargetEpochKey,
    TargetEpochValue,
    TargetMemberKey,
    TargetMemberValue,
)
from broker.coordinator.schema import SchemaError, Writer

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
ASSIGNMENT = st.dictionaries(st.uuids(), st.frozensets(st.integers(0, 300), min_size=1), max_size=3)
MEMBER = st.builds(
    ClassicMemberValue,
    member_id=TEXT,
    instance_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout_ms=st.integers(0, 2**31 - 1),
    session_timeout_ms=st.integers(0, 2**31 - 1),
    subscription=st.binary(max_size=40),
    assignment=st.binary(max_size=40),
)
RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.tuples(
        st.builds(OffsetKey, group_id=TEXT, topic=TEXT, partition=INT32),
        st.none()
        | st.builds(
            OffsetValue, offset=INT64, leader_epoch=INT32, metadata=TEXT, commit_timestamp_ms=INT64, topic_id=st.uuids()
        ),
    ),
    st.tuples(
        st.builds(ClassicGroupKey, group_id=TEXT),
        st.none()
        | st.builds(
            ClassicGroupValue,
            protocol_type=TEXT,
            generation=INT32,
            protocol=st.none() | TEXT,
            leader=st.none() | TEXT,
            state_timestamp_ms=INT64,
            members=st.lists(MEMBER, max_size=3).map(tuple),
        ),
    ),
    st.tuples(
        st.builds(GroupEpochKey, group_id=TEXT),
        st.none() | st.builds(GroupEpochValue, epoch=INT32, metadata_hash=INT64),
    ),
    st.tuples(
        st.builds(MemberKey, group_id=TEXT, member_id=TEXT),
        st.none()
        | st.builds(
            MemberValue,
            instance_id=st.none() | TEXT,
            rack_id=st.none() | TEXT,
            client_id=TEXT,
            client_host=TEXT,
            subscribed_topic_names=st.lists(TEXT, max_size=3).map(tuple),
            subscribed_topic_regex=st.none() | TEXT,
            rebalance_timeout_ms=INT32,
            server_assignor=st.none() | TEXT,
        ),
    ),
    st.tuples(
        st.builds(TargetEpochKey, group_id=TEXT),
        st.builds(TargetEpochValue, assignment_epoch=INT32, timestamp_ms=st.integers(0, 2**62)),
    ),
    st.tuples(
        st.builds(TargetMemberKey, group_id=TEXT, member_id=TEXT), st.builds(TargetMemberValue, partitions=ASSIGNMENT)
    ),
    st.tuples(
        st.builds(CurrentMemberKey, group_id=TEXT, member_id=TEXT),
        st.builds(
            CurrentMemberValue,
            member_epoch=INT32,
            previous_member_epoch=INT32,
            state=st.integers(0, 2),
            assigned=ASSIGNMENT,
            pending_revocation=ASSIGNMENT,
        ),
    ),
    st.tuples(
        st.builds(PatternKey, group_id=TEXT, pattern=TEXT),
        st.none()
        | st.builds(PatternValue, topics=st.frozensets(TEXT, max_size=3), metadata_version=INT64, timestamp_ms=INT64),
    ),
)


@given(RECORDS)
def test_every_record_comes_back(record: Record) -> None:
    made = encode(record)
    assert decode(made.key, made.value) == record


@given(RECORDS, st.data())
def test_a_cut_value_is_an_error_and_never_another_value(record: Record, data: st.DataObject) -> None:
    made = encode(record)
    if made.value is not None:
        cut = data.draw(st.integers(0, len(made.value) - 1))
        with pytest.raises(SchemaError):
            decode(made.key, made.value[:cut])


def test_a_member_that_was_a_classic_one_is_read_without_what_that_protocol_needs() -> None:
    """The bytes are those of Apache Kafka 4.3.1, and of this broker when groups with members changed their protocol."""
    value = MemberValue(
        instance_id="",
        rack_id="",
        client_id="c",
        client_host="/h",
        subscribed_topic_names=("t",),
        subscribed_topic_regex="",
        rebalance_timeout_ms=5,
        server_assignor="",
    )
    made = encode((MemberKey(group_id="g", member_id="m"), value))
    assert made.value is not None
    without_tags = "000001010263032f68020274010000000501"
    assert made.value.hex() == without_tags + "00"
    with pytest.raises(SchemaError):
        decode(made.key, bytes.fromhex(without_tags))
    found = decode(made.key, bytes.fromhex(without_tags + "0100120100000007020672616e6765040102030000"))
    assert found is not None
    assert found[1] == value


@pytest.mark.parametrize("number", range(17, 24))
def test_streams_groups_that_an_earlier_version_wrote_are_read_past(number: int) -> None:
    """KIP-1071. The offsets that they committed have type 1, and stay."""
    assert decode(bytes(Writer(number).string("g")), b"\x00\x00") is None


def test_types_of_other_software_are_skipped_and_unknown_versions_refused() -> None:
    assert decode(bytes(Writer(99).string("g")), b"\x00\x00") is None
    with pytest.raises(SchemaError, match="version 9"):
        decode(bytes(Writer(1).string("g").string("t").int32(0)), bytes(Writer(9)))
