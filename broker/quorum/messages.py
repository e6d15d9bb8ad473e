"""Translates quorum messages to and from kio's wire types, in the versions that brokers use among themselves.

Vote 2, BeginQuorumEpoch 1, EndQuorumEpoch 1, Fetch 17, FetchSnapshot 1. Every message names one partition,
`__cluster_metadata` 0. Directory ids and endpoints are left empty: voters are static and found by
controller.quorum.voters. A message of another shape raises RemoteProtocolError. Shown by
tests/broker_quorum/test_quorum_messages.py, which translates in both directions.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from kio.schema.begin_quorum_epoch.v1 import request as begin_request
from kio.schema.begin_quorum_epoch.v1 import response as begin_response
from kio.schema.end_quorum_epoch.v1 import request as end_request
from kio.schema.end_quorum_epoch.v1 import response as end_response
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v18 import request as fetch_request
from kio.schema.fetch.v18 import response as fetch_response
from kio.schema.fetch_snapshot.v1 import request as snapshot_request
from kio.schema.fetch_snapshot.v1 import response as snapshot_response
from kio.schema.leader_change_message.v0 import data as leader_change
from kio.schema.types import BrokerId, TopicName
from kio.schema.vote.v2 import request as vote_request
from kio.schema.vote.v2 import response as vote_response
from kio.static.primitive import Records, i16, i32, i32Timedelta, i64

from broker.quorum.entries import decode_entries, encode_entries
from broker.quorum.snapshots import SnapshotId
from broker.quorum.types import (
    NO_EPOCH,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DivergingEpoch,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from broker.wire.encoder import Output, encode_body
from broker.wire.errors import RemoteProtocolError

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)  # Kafka's reserved id of that topic
FETCH_MAX_BYTES = 8 << 20

KioRequest = (
    vote_request.VoteRequest
    | begin_request.BeginQuorumEpochRequest
    | end_request.EndQuorumEpochRequest
    | fetch_request.FetchRequest
    | snapshot_request.FetchSnapshotRequest
)
KioResponse = (
    vote_response.VoteResponse
    | begin_response.BeginQuorumEpochResponse
    | end_response.EndQuorumEpochResponse
    | fetch_response.FetchResponse
    | snapshot_response.FetchSnapshotResponse
)
_TOPIC = TopicName(METADATA_TOPIC)
_NOT_TOLD = 2**63 - 1  # a high watermark of a sender that does not tell it
_PARTITION = i32(0)


def encode_leader_change(*, leader_id: int, voters: tuple[int, ...], granting: frozenset[int]) -> bytes:
    """The value of a LeaderChange control record, version 0."""
    output = Output()
    encode_body(
        leader_change.LeaderChangeMessage(
            version=i16(0),
            leader_id=BrokerId(leader_id),
            voters=tuple(leader_change.Voter(voter_id=i32(voter)) for voter in voters),
            granting_voters=tuple(leader_change.Voter(voter_id=i32(voter)) for voter in sorted(granting)),
        ),
        output,
    )
    return b"".join(output.finish())


def request_to_kio(request: Request, *, receiver_id: int, cluster_id: str | None) -> KioRequest:
    match request:
        case VoteRequest():
            return _vote_request_to_kio(request, receiver_id, cluster_id)
        case BeginQuorumEpochRequest():
            begin = begin_request.PartitionData(
                partition_index=_PARTITION,
                voter_directory_id=None,
                leader_id=BrokerId(request.leader_id),
                leader_epoch=i32(request.leader_epoch),
            )
            return begin_request.BeginQuorumEpochRequest(
                cluster_id=cluster_id,
                voter_id=BrokerId(receiver_id),
                topics=(begin_request.TopicData(topic_name=_TOPIC, partitions=(begin,)),),
                leader_endpoints=(),
            )
        case EndQuorumEpochRequest():
            candidates = tuple(
                end_request.ReplicaInfo(candidate_id=BrokerId(voter), candidate_directory_id=None)
                for voter in request.preferred_candidates
            )
            end = end_request.PartitionData(
                partition_index=_PARTITION,
                leader_id=BrokerId(request.leader_id),
                leader_epoch=i32(request.leader_epoch),
                preferred_candidates=candidates,
            )
            return end_request.EndQuorumEpochRequest(
                cluster_id=cluster_id,
                topics=(end_request.TopicData(topic_name=_TOPIC, partitions=(end,)),),
                leader_endpoints=(),
            )
        case FetchRequest():
            return _fetch_request_to_kio(request, cluster_id)
        case FetchSnapshotRequest():
            return _fetch_snapshot_request_to_kio(request, cluster_id)


def _vote_request_to_kio(request: VoteRequest, receiver_id: int, cluster_id: str | None) -> vote_request.VoteRequest:
    partition = vote_request.PartitionData(
        partition_index=_PARTITION,
        replica_epoch=i32(request.candidate_epoch),
        replica_id=BrokerId(request.candidate_id),
        replica_directory_id=None,
        voter_directory_id=None,
        last_offset_epoch=i32(request.last_epoch),
        last_offset=i64(request.last_offset),
        pre_vote=request.pre_vote,
    )
    return vote_request.VoteRequest(
        cluster_id=cluster_id,
        voter_id=BrokerId(receiver_id),
        topics=(vote_request.TopicData(topic_name=_TOPIC, partitions=(partition,)),),
    )


def _fetch_request_to_kio(request: FetchRequest, cluster_id: str | None) -> fetch_request.FetchRequest:
    partition = fetch_request.FetchPartition(
        partition=_PARTITION,
        current_leader_epoch=i32(request.current_leader_epoch),
        fetch_offset=i64(request.fetch_offset),
        last_fetched_epoch=i32(request.last_fetched_epoch),
        log_start_offset=i64(0),
        partition_max_bytes=i32(FETCH_MAX_BYTES),
        high_watermark=i64(_NOT_TOLD if request.high_watermark is None else request.high_watermark),
    )
    return fetch_request.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch_request.ReplicaState(replica_id=BrokerId(request.replica_id)),
        max_wait=i32Timedelta.parse(timedelta(milliseconds=request.max_wait_ms)),
        min_bytes=i32(0),
        max_bytes=i32(FETCH_MAX_BYTES),
        topics=(fetch_request.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def _fetch_snapshot_request_to_kio(
    request: FetchSnapshotRequest, cluster_id: str | None
) -> snapshot_request.FetchSnapshotRequest:
    partition = snapshot_request.PartitionSnapshot(
        partition=_PARTITION,
        current_leader_epoch=i32(request.current_leader_epoch),
        snapshot_id=snapshot_request.SnapshotId(
            end_offset=i64(request.snapshot_id.end_offset), epoch=i32(request.snapshot_id.epoch)
        ),
        position=i64(request.position),
        replica_directory_id=None,
    )
    return snapshot_request.FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=BrokerId(request.replica_id),
        max_bytes=i32(request.max_bytes),
        topics=(snapshot_request.TopicSnapshot(name=_TOPIC, partitions=(partition,)),),
    )


def request_from_kio(message: KioRequest) -> Request:
    match message:
        case vote_request.VoteRequest(topics=(vote_request.TopicData(partitions=(vote,)),)):
            return VoteRequest(
                candidate_id=vote.replica_id,
                candidate_epoch=vote.replica_epoch,
                last_epoch=vote.last_offset_epoch,
                last_offset=vote.last_offset,
                pre_vote=vote.pre_vote,
            )
        case begin_request.BeginQuorumEpochRequest(topics=(begin_request.TopicData(partitions=(begin,)),)):
            return BeginQuorumEpochRequest(leader_id=begin.leader_id, leader_epoch=begin.leader_epoch)
        case end_request.EndQuorumEpochRequest(topics=(end_request.TopicData(partitions=(end,)),)):
            candidates = tuple(int(candidate.candidate_id) for candidate in end.preferred_candidates)
            return EndQuorumEpochRequest(
                leader_id=end.leader_id, leader_epoch=end.leader_epoch, preferred_candidates=candidates
            )
        case fetch_request.FetchRequest(topics=(fetch_request.FetchTopic(partitions=(fetch,)),)):
            return FetchRequest(
                replica_id=message.replica_state.replica_id,
                current_leader_epoch=fetch.current_leader_epoch,
                fetch_offset=fetch.fetch_offset,
                last_fetched_epoch=fetch.last_fetched_epoch,
                max_wait_ms=message.max_wait // timedelta(milliseconds=1),
                high_watermark=None if fetch.high_watermark == _NOT_TOLD else fetch.high_watermark,
            )
        case snapshot_request.FetchSnapshotRequest(topics=(snapshot_request.TopicSnapshot(partitions=(asked,)),)):
            return FetchSnapshotRequest(
                replica_id=message.replica_id,
                current_leader_epoch=asked.current_leader_epoch,
                snapshot_id=SnapshotId(end_offset=asked.snapshot_id.end_offset, epoch=asked.snapshot_id.epoch),
                position=asked.position,
                max_bytes=message.max_bytes,
            )
    raise RemoteProtocolError(f"{type(message).__name__}: expected one partition of {METADATA_TOPIC}")


def response_to_kio(response: Response) -> KioResponse:
    match response:
        case VoteResponse():
            vote = vote_response.PartitionData(
                partition_index=_PARTITION,
                error_code=ErrorCode(response.error_code),
                leader_id=BrokerId(response.leader_id),
                leader_epoch=i32(response.leader_epoch),
                vote_granted=response.vote_granted,
            )
            return vote_response.VoteResponse(
                error_code=ErrorCode.none,
                topics=(vote_response.TopicData(topic_name=_TOPIC, partitions=(vote,)),),
            )
        case BeginQuorumEpochResponse():
            begin = begin_response.PartitionData(
                partition_index=_PARTITION,
                error_code=ErrorCode(response.error_code),
                leader_id=BrokerId(response.leader_id),
                leader_epoch=i32(response.leader_epoch),
            )
            return begin_response.BeginQuorumEpochResponse(
                error_code=ErrorCode.none,
                topics=(begin_response.TopicData(topic_name=_TOPIC, partitions=(begin,)),),
            )
        case EndQuorumEpochResponse():
            end = end_response.PartitionData(
                partition_index=_PARTITION,
                error_code=ErrorCode(response.error_code),
                leader_id=BrokerId(response.leader_id),
                leader_epoch=i32(response.leader_epoch),
            )
            return end_response.EndQuorumEpochResponse(
                error_code=ErrorCode.none,
                topics=(end_response.TopicData(topic_name=_TOPIC, partitions=(end,)),),
            )
        case FetchResponse():
            return _fetch_response_to_kio(response)
        case FetchSnapshotResponse():
            return _fetch_snapshot_response_to_kio(response)


def _fetch_response_to_kio(response: FetchResponse) -> fetch_response.FetchResponse:
    diverging = fetch_response.EpochEndOffset()
    if response.diverging_epoch is not None:
        diverging = fetch_response.EpochEndOffset(
            epoch=i32(response.diverging_epoch.epoch), end_offset=i64(response.diverging_epoch.end_offset)
        )
    snapshot_id = fetch_response.SnapshotId()
    if response.snapshot_id is not None:
        snapshot_id = fetch_response.SnapshotId(
            end_offset=i64(response.snapshot_id.end_offset), epoch=i32(response.snapshot_id.epoch)
        )
    partition = fetch_response.PartitionData(
        partition_index=_PARTITION,
        error_code=ErrorCode(response.error_code),
        snapshot_id=snapshot_id,
        high_watermark=i64(response.high_watermark),
        last_stable_offset=i64(response.high_watermark),
        log_start_offset=i64(0),
        diverging_epoch=diverging,
        current_leader=fetch_response.LeaderIdAndEpoch(
            leader_id=BrokerId(response.leader_id), leader_epoch=i32(response.leader_epoch)
        ),
        aborted_transactions=None,
        records=Records(encode_entries(response.entries)),
    )
    topic = fetch_response.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    return fetch_response.FetchResponse(
        throttle_time=i32Timedelta.parse(timedelta()), error_code=ErrorCode.none, responses=(topic,)
    )


def _fetch_snapshot_response_to_kio(response: FetchSnapshotResponse) -> snapshot_response.FetchSnapshotResponse:
    partition = snapshot_response.PartitionSnapshot(
        index=_PARTITION,
        error_code=ErrorCode(response.error_code),
        snapshot_id=snapshot_response.SnapshotId(
            end_offset=i64(response.snapshot_id.end_offset), epoch=i32(response.snapshot_id.epoch)
        ),
        current_leader=snapshot_response.LeaderIdAndEpoch(
            leader_id=BrokerId(response.leader_id), leader_epoch=i32(response.leader_epoch)
        ),
        size=i64(response.size),
        position=i64(response.position),
        unaligned_records=Records(response.data),
    )
    return snapshot_response.FetchSnapshotResponse(
        throttle_time=i32Timedelta.parse(timedelta()),
        error_code=ErrorCode.none,
        topics=(snapshot_response.TopicSnapshot(name=_TOPIC, partitions=(partition,)),),
    )


def response_from_kio(message: KioResponse) -> Response:
    match message:
        case vote_response.VoteResponse(topics=(vote_response.TopicData(partitions=(vote,)),)):
            return VoteResponse(
                error_code=int(vote.error_code),
                leader_id=vote.leader_id,
                leader_epoch=vote.leader_epoch,
                vote_granted=vote.vote_granted,
            )
        case begin_response.BeginQuorumEpochResponse(topics=(begin_response.TopicData(partitions=(begin,)),)):
            return BeginQuorumEpochResponse(
                error_code=int(begin.error_code), leader_id=begin.leader_id, leader_epoch=begin.leader_epoch
            )
        case end_response.EndQuorumEpochResponse(topics=(end_response.TopicData(partitions=(end,)),)):
            return EndQuorumEpochResponse(
                error_code=int(end.error_code), leader_id=end.leader_id, leader_epoch=end.leader_epoch
            )
        case fetch_response.FetchResponse(responses=(fetch_response.FetchableTopicResponse(partitions=(fetch,)),)):
            return _fetch_response_from_kio(fetch)
        case snapshot_response.FetchSnapshotResponse(topics=(snapshot_response.TopicSnapshot(partitions=(piece,)),)):
            return FetchSnapshotResponse(
                error_code=int(piece.error_code),
                leader_id=piece.current_leader.leader_id,
                leader_epoch=piece.current_leader.leader_epoch,
                snapshot_id=SnapshotId(end_offset=piece.snapshot_id.end_offset, epoch=piece.snapshot_id.epoch),
                size=piece.size,
                position=piece.position,
                data=bytes(piece.unaligned_records or b""),
            )
    raise RemoteProtocolError(f"{type(message).__name__}: expected one partition of {METADATA_TOPIC}")


def _fetch_response_from_kio(partition: fetch_response.PartitionData) -> FetchResponse:
    diverging = None
    # In Kafka end offset -1 means that the logs do not diverge. Epoch -1 with end offset 0 means that they have no
    # entry in common.
    if partition.diverging_epoch.end_offset >= 0:
        diverging = DivergingEpoch(
            epoch=max(NO_EPOCH, partition.diverging_epoch.epoch), end_offset=partition.diverging_epoch.end_offset
        )
    snapshot_id = None
    if partition.snapshot_id.end_offset >= 0:  # -1: there is none
        snapshot_id = SnapshotId(end_offset=partition.snapshot_id.end_offset, epoch=partition.snapshot_id.epoch)
    return FetchResponse(
        error_code=int(partition.error_code),
        leader_id=partition.current_leader.leader_id,
        leader_epoch=partition.current_leader.leader_epoch,
        high_watermark=partition.high_watermark,
        diverging_epoch=diverging,
        entries=decode_entries(partition.records or b""),
        snapshot_id=snapshot_id,
    )
