"""WriteTxnMarkers (key 27), versions 1-2: ends transactions in the logs that this broker leads. Coordinators and admins
send it.

Each marker is a control batch, which is appended as with acks=all. Its result is known when it is replicated or has
failed; each partition has its own error. Version 2 contains the transaction version (KIP-1228), which the log needs to
check epochs. On `__consumer_offsets` the group coordinator is told when the marker is committed. Then the offsets are
committed or dropped. While the coordinator loads, markers are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from broker.log.transactions import EndMarker
from broker.node.coordination.groups import OFFSETS_TOPIC
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest, guarded
from broker.node.net.time_slices import in_turns
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import write_txn_markers as shapes

ACKS_ALL = -1


def handle(services: Services, request: AnyRequest[shapes.WriteTxnMarkersRequest]) -> None:
    _Markers(services, request).start()


class _Markers:
    """One request. It is answered when the outcome of every partition is known."""

    def __init__(self, services: Services, request: AnyRequest[shapes.WriteTxnMarkersRequest]) -> None:
        self._services, self._request = services, request
        self._waiting = 1  # counts the request itself until all partitions are handled
        self._answers: list[shapes.WritableTxnMarkerResultFields] = []

    def start(self) -> None:
        markers = self._request.message.markers
        if any(self._is_of_nobody(asked) for asked in markers):
            self._request.respond(_all_failed(self._request))
            return
        in_turns(self._request, self._write_all(markers), self._done)

    def _write_all(self, markers: Iterable[shapes.WritableTxnMarker]) -> Iterator[None]:
        for asked in markers:
            topics: list[shapes.WritableTxnMarkerTopicResultFields] = []
            for topic in asked.topics:
                results: list[shapes.WritableTxnMarkerPartitionResultFields] = []
                for index in topic.partition_indexes:
                    results.append(self._write(asked, topic.name, index))
                    yield
                if results:
                    topics.append({"name": topic.name, "partitions": results})
            if topics:
                self._answers.append({"producer_id": asked.producer_id, "topics": topics})

    def _is_of_nobody(self, asked: shapes.WritableTxnMarker) -> bool:
        """Whether this marker has no producer, although one of its partitions exists. Such a marker fits no log. In
        Kafka the whole request fails when it builds the batch."""
        is_someone = asked.producer_id >= 0 and asked.producer_epoch >= 0
        image = self._services.metadata.image
        named = [(topic.name, index) for topic in asked.topics for index in topic.partition_indexes]
        return not is_someone and any(image.partition(*each) is not None for each in named)

    def _write(
        self, asked: shapes.WritableTxnMarker, topic: str, index: int
    ) -> shapes.WritableTxnMarkerPartitionResultFields:
        result: shapes.WritableTxnMarkerPartitionResultFields = {"partition_index": index}
        hosted = self._services.partitions.get(topic, index)
        if hosted is None:
            return {**result, "error_code": self._services.absent(topic, index)}
        error = hosted.replica.check_append(acks=ACKS_ALL)
        if error is ErrorCode.none and topic == OFFSETS_TOPIC and not self._services.groups.host.is_serving(index):
            error = ErrorCode.coordinator_load_in_progress
        if error is not ErrorCode.none:
            return {**result, "error_code": error}
        outcome = self._services.appends.append_marker(
            hosted,
            producer_id=asked.producer_id,
            producer_epoch=asked.producer_epoch,
            marker=EndMarker(asked.transaction_result, asked.coordinator_epoch),
            transaction_version=field_or(asked, "transaction_version", 0),
        )
        result["error_code"] = outcome.error_code
        if outcome.error_code is ErrorCode.none:
            self._waiting += 1

            def replicated(error: ErrorCode) -> None:
                if error is ErrorCode.none and topic == OFFSETS_TOPIC:
                    error = self._services.groups.transaction_ended(
                        index,
                        producer_id=asked.producer_id,
                        producer_epoch=asked.producer_epoch,
                        is_commit=asked.transaction_result,
                    )
                result["error_code"] = error
                self._done()

            timeout_ms = self._services.config.replication.replica_socket_timeout_ms
            self._services.cores.await_replication(
                hosted,
                required_offset=outcome.required_offset,
                timeout_ms=timeout_ms,
                done=guarded(self._request, replicated),
            )
        return result

    def _done(self) -> None:
        self._waiting -= 1
        if self._waiting == 0:
            answer = response(ApiKey.WRITE_TXN_MARKERS, self._request.version, markers=self._answers)
            self._request.respond(answer)


def _all_failed(request: AnyRequest[shapes.WriteTxnMarkersRequest]) -> shapes.WriteTxnMarkersResponse:
    error = ErrorCode.unknown_server_error
    markers: list[shapes.WritableTxnMarkerResultFields] = [
        {
            "producer_id": asked.producer_id,
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {"partition_index": index, "error_code": error} for index in topic.partition_indexes
                    ],
                }
                for topic in asked.topics
                if topic.partition_indexes
            ],
        }
        for asked in request.message.markers
    ]
    return response(ApiKey.WRITE_TXN_MARKERS, request.version, markers=markers)
