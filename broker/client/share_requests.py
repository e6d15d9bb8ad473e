"""Translates between the requests and answers of share sessions and the values of core/shares. It does no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from broker.client.core.errors import KafkaError
from broker.client.core.shares.config import RECORD_LIMIT, ShareConsumerConfig
from broker.client.core.shares.ranges import ranges_of
from broker.client.core.shares.values import Acks, Place, ShareAnswer, SharePart, ShareRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, request, to_ms

if TYPE_CHECKING:
    from broker.wire.shapes.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
    from broker.wire.shapes.share_fetch import AcknowledgementBatchFields, ShareFetchRequest, ShareFetchResponse

Entry = TypeVar("Entry")
_MODES_SINCE = 2  # the version with share.acquire.mode and renewals
_BATCH_OPTIMIZED_CODE, _RECORD_LIMIT_CODE = 0, 1


def api_of(asked: ShareRequest) -> ApiKey:
    return ApiKey.SHARE_FETCH if asked.is_fetch else ApiKey.SHARE_ACKNOWLEDGE


def share_fetch_request(
    version: int, config: ShareConsumerConfig, member_id: str, asked: ShareRequest
) -> ShareFetchRequest:
    places = dict.fromkeys([*sorted(asked.added, key=_sort_key), *asked.acks])
    return request(
        ApiKey.SHARE_FETCH,
        version,
        group_id=config.group_id,
        member_id=member_id,
        share_session_epoch=asked.epoch,
        max_wait=config.fetch_max_wait_ms,
        min_bytes=config.fetch_min_bytes,
        max_bytes=config.fetch_max_bytes,
        max_records=config.max_poll_records,
        batch_size=config.max_poll_records,
        topics=[
            {
                "topic_id": topic_id,
                "partitions": [
                    {"partition_index": index, "acknowledgement_batches": batches} for index, batches in partitions
                ],
            }
            for topic_id, partitions in _by_topic({place: _batches(asked.acks, place) for place in places}).items()
        ],
        forgotten_topics_data=[
            {"topic_id": topic_id, "partitions": [index for index, _ in partitions]}
            for topic_id, partitions in _by_topic(dict.fromkeys(asked.forgotten)).items()
        ],
        share_acquire_mode=_RECORD_LIMIT_CODE if config.share_acquire_mode == RECORD_LIMIT else _BATCH_OPTIMIZED_CODE,
        is_renew_ack=False,
    )


def share_acknowledge_request(
    version: int, config: ShareConsumerConfig, member_id: str, asked: ShareRequest
) -> ShareAcknowledgeRequest:
    """Raises KafkaError if the broker cannot renew locks."""
    if asked.is_renewing and version < _MODES_SINCE:
        raise KafkaError(ErrorCode.unsupported_version, "the broker cannot renew locks: it speaks ShareAcknowledge v1")
    return request(
        ApiKey.SHARE_ACKNOWLEDGE,
        version,
        group_id=config.group_id,
        member_id=member_id,
        share_session_epoch=asked.epoch,
        topics=[
            {
                "topic_id": topic_id,
                "partitions": [
                    {"partition_index": index, "acknowledgement_batches": batches} for index, batches in partitions
                ],
            }
            for topic_id, partitions in _by_topic({place: _batches(asked.acks, place) for place in asked.acks}).items()
        ],
        is_renew_ack=asked.is_renewing,
    )


def _batches(acks: Acks, place: Place) -> list[AcknowledgementBatchFields]:
    return [
        {"first_offset": first, "last_offset": last, "acknowledge_types": types}
        for first, last, types in ranges_of(acks.get(place, {}))
    ]


def _by_topic(places: Mapping[Place, Entry]) -> dict[UUID, list[tuple[int, Entry]]]:
    grouped: dict[UUID, list[tuple[int, Entry]]] = {}
    for (topic_id, index), entry in places.items():
        grouped.setdefault(topic_id, []).append((index, entry))
    return grouped


def _sort_key(place: Place) -> tuple[int, int]:
    return place[0].int, place[1]


def fetched(answer: ShareFetchResponse) -> ShareAnswer:
    """The records in it are views, valid as long as the answer."""
    return ShareAnswer(
        error_code=int(answer.error_code),
        lock_timeout_ms=to_ms(answer.acquisition_lock_timeout),
        parts={
            (topic.topic_id, each.partition_index): SharePart(
                error_code=int(each.error_code),
                acknowledge_error=int(each.acknowledge_error_code),
                records=each.records or b"",
                acquired=tuple(
                    (one.first_offset, one.last_offset, one.delivery_count) for one in each.acquired_records
                ),
            )
            for topic in answer.responses
            if topic.topic_id is not None
            for each in topic.partitions
        },
    )


def acknowledged(answer: ShareAcknowledgeResponse) -> ShareAnswer:
    return ShareAnswer(
        error_code=int(answer.error_code),
        lock_timeout_ms=to_ms(field_or(answer, "acquisition_lock_timeout", timedelta())),
        parts={
            (topic.topic_id, each.partition_index): SharePart(acknowledge_error=int(each.error_code))
            for topic in answer.responses
            if topic.topic_id is not None
            for each in topic.partitions
        },
    )
