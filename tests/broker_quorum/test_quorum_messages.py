"""Messages, entries and the state file go there and back, over kio's own encoding too."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from broker.quorum.entries import decode_entries, encode_entries
from broker.quorum.messages import request_from_kio, request_to_kio, response_from_kio, response_to_kio
from broker.quorum.snapshots import SnapshotId
from broker.quorum.state_file import decode_quorum_state, encode_quorum_state
from broker.quorum.types import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DivergingEpoch,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LogEntry,
    PersistedState,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from broker.wire.errors import CorruptBatchError, RemoteProtocolError
from broker.wire.records import CodecId, encode_batch, iter_batches

ENTRIES = (
    LogEntry(offset=4, epoch=2, is_control=True, values=(b"leader",)),
    LogEntry(offset=5, epoch=2, is_control=False, values=(b"one", b"", b"three")),
    LogEntry(offset=8, epoch=3, is_control=False, values=(b"x" * 3000,)),
)
REQUESTS: list[Request] = [
    VoteRequest(candidate_id=2, candidate_epoch=7, last_epoch=6, last_offset=99, pre_vote=True),
    VoteRequest(candidate_id=2, candidate_epoch=8, last_epoch=-1, last_offset=0, pre_vote=False),
    BeginQuorumEpochRequest(leader_id=3, leader_epoch=8),
    EndQuorumEpochRequest(leader_id=3, leader_epoch=8, preferred_candidates=(2, 1)),
    FetchRequest(replica_id=1, current_leader_epoch=8, fetch_offset=7, last_fetched_epoch=3, max_wait_ms=500),
    FetchRequest(
        replica_id=1,
        current_leader_epoch=8,
        fetch_offset=7,
        last_fetched_epoch=3,
        max_wait_ms=500,
        high_watermark=6,
    ),
    FetchSnapshotRequest(
        replica_id=1,
        current_leader_epoch=8,
        snapshot_id=SnapshotId(end_offset=100, epoch=7),
        position=4_096,
        max_bytes=1 << 20,
    ),
]
RESPONSES: list[Response] = [
    VoteResponse(error_code=0, leader_id=-1, leader_epoch=8, vote_granted=True),
    VoteResponse(error_code=74, leader_id=3, leader_epoch=8, vote_granted=False),
    BeginQuorumEpochResponse(error_code=0, leader_id=3, leader_epoch=8),
    EndQuorumEpochResponse(error_code=0, leader_id=-1, leader_epoch=8),
    FetchResponse(error_code=0, leader_id=3, leader_epoch=8, high_watermark=6, diverging_epoch=None, entries=ENTRIES),
    FetchResponse(
        error_code=0,
        leader_id=3,
        leader_epoch=8,
        high_watermark=6,
        diverging_epoch=DivergingEpoch(epoch=2, end_offset=5),
        entries=(),
    ),
    FetchResponse(
        error_code=0,
        leader_id=3,
        leader_epoch=8,
        high_watermark=6,
        diverging_epoch=DivergingEpoch(epoch=-1, end_offset=0),
        entries=(),
    ),
    FetchResponse(
        error_code=0,
        leader_id=3,
        leader_epoch=8,
        high_watermark=6,
        diverging_epoch=None,
        entries=(),
        snapshot_id=SnapshotId(end_offset=100, epoch=7),
    ),
    FetchSnapshotResponse(
        error_code=0,
        leader_id=3,
        leader_epoch=8,
        snapshot_id=SnapshotId(end_offset=100, epoch=7),
        size=10_000,
        position=4_096,
        data=b"piece",
    ),
    FetchResponse(error_code=6, leader_id=-1, leader_epoch=8, high_watermark=-1, diverging_epoch=None, entries=()),
]


def over_the_wire(message: object) -> object:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)  # type: ignore[type-var]
    parsed, size = entity_reader(type(message))(buffer.getvalue(), 0)  # type: ignore[type-var]
    assert size == len(buffer.getvalue())
    return parsed


@pytest.mark.parametrize("request_message", REQUESTS, ids=lambda message: type(message).__name__)
def test_requests_go_there_and_back(request_message: Request) -> None:
    kio = request_to_kio(request_message, receiver_id=1, cluster_id="c")
    assert request_from_kio(over_the_wire(kio)) == request_message  # type: ignore[arg-type]


@pytest.mark.parametrize("response", RESPONSES, ids=lambda message: type(message).__name__)
def test_responses_go_there_and_back(response: Response) -> None:
    assert response_from_kio(over_the_wire(response_to_kio(response))) == response  # type: ignore[arg-type]


def test_a_message_without_the_metadata_partition_is_refused() -> None:
    kio = request_to_kio(REQUESTS[0], receiver_id=1, cluster_id=None)
    empty = type(kio)(cluster_id=None, voter_id=kio.voter_id, topics=())  # type: ignore[union-attr,call-arg]
    with pytest.raises(RemoteProtocolError, match="one partition"):
        request_from_kio(empty)


@given(
    st.lists(st.tuples(st.integers(0, 2**31 - 1), st.lists(st.binary(max_size=200), max_size=5)), max_size=8),
    st.integers(0, 2**40),
)
def test_entries_go_there_and_back(fields: list[tuple[int, list[bytes]]], offset: int) -> None:
    entries: list[LogEntry] = []
    for epoch, values in fields:  # without values: a control entry
        entry = LogEntry(offset=offset, epoch=epoch, is_control=not values, values=tuple(values) or (b"leader",))
        entries.append(entry)
        offset = entry.end_offset
    data = encode_entries(tuple(entries))
    assert decode_entries(data) == tuple(entries)
    assert [batch.header.next_offset for batch in iter_batches(data)] == [entry.end_offset for entry in entries]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (encode_batch([b"a"] * 9, timestamps_ms=0, codec=CodecId.GZIP), "is compressed"),
        (encode_batch([b"a", None], timestamps_ms=0, base_offset=4), "has no value at 5"),
        (encode_batch([b"a", b"b"], timestamps_ms=0, control=True), "has 2 records"),
    ],
)
def test_a_batch_that_no_leader_writes_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(CorruptBatchError, match=problem):
        decode_entries(data)


@pytest.mark.parametrize("position", [17, 30, 70, -1])
def test_a_damaged_entry_is_recognised(position: int) -> None:
    data = bytearray(encode_entries(ENTRIES[:1]))
    data[position] ^= 0x40
    with pytest.raises(CorruptBatchError):
        decode_entries(bytes(data))


def test_a_torn_entry_is_recognised() -> None:
    with pytest.raises(CorruptBatchError):
        decode_entries(encode_entries(ENTRIES)[:-1])


def test_the_state_file_has_kafkas_fields() -> None:
    text = encode_quorum_state(
        PersistedState(leader_epoch=5, leader_id=2, voted_id=-1), cluster_id="abc", voters=(1, 2)
    )
    assert json.loads(text) == {
        "clusterId": "abc",
        "leaderId": 2,
        "leaderEpoch": 5,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}, {"voterId": 2}],
        "data_version": 0,
    }
    assert decode_quorum_state(text) == PersistedState(leader_epoch=5, leader_id=2, voted_id=-1)
    assert decode_quorum_state(None) == PersistedState()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"data_version":1}', '{"data_version":0,"leaderEpoch":"x"}'])
def test_a_damaged_state_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="damaged"):
        decode_quorum_state(text)
