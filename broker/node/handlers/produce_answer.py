"""The answer to one Produce request while it is built: the outcome of each partition, and the refused records."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from broker.node.net.requests import Request
from broker.node.replicas.produce_checks import Rejection
from broker.wire.apis import ApiKey
from broker.wire.hot_produce import PartitionAnswer, encode_produce_response
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import produce as shapes

RECORD_ERRORS_SINCE_VERSION = 8  # KIP-467


class ProduceAnswer:
    """`waiting` counts partitions whose outcome is not known yet."""

    __slots__ = ("_request", "_topics", "has_failed", "rejections", "waiting")

    def __init__(self, request: Request[shapes.ProduceRequest]) -> None:
        self._request = request
        self._topics: list[tuple[str | UUID | None, list[PartitionAnswer]]] = []
        self.rejections: dict[PartitionAnswer, Rejection] = {}  # nearly always empty
        self.has_failed = False  # at least one partition has definitely failed
        self.waiting = 1  # counts the request itself until all partitions are handled

    def topic(self, name: str | UUID | None) -> list[PartitionAnswer]:
        """The list for the results of the topic's partitions."""
        partitions: list[PartitionAnswer] = []
        self._topics.append((name, partitions))
        return partitions

    def done(self) -> None:
        self.waiting -= 1
        if self.waiting:
            return
        request = self._request
        if not self.rejections:
            frame = encode_produce_response(request.version, request.header.correlation_id, self._topics)
            if frame is not None:
                request.respond_frame([frame])
                return
        request.respond(self._message())

    def _message(self) -> shapes.ProduceResponse:
        topics: list[shapes.TopicProduceResponseFields] = []
        for topic, partitions in self._topics:
            responses = [self._values(each) for each in partitions]
            if isinstance(topic, str):
                topics.append({"name": topic, "partition_responses": responses})
            else:
                topics.append({"topic_id": topic, "partition_responses": responses})
        return response(ApiKey.PRODUCE, self._request.version, responses=topics)

    def _values(self, result: PartitionAnswer) -> shapes.PartitionProduceResponseFields:
        values: shapes.PartitionProduceResponseFields = {
            "index": result.index,
            "error_code": result.error_code,
            "base_offset": result.base_offset,
            "log_append_time": result.log_append_time_ms,
            "log_start_offset": result.log_start_offset,
        }
        rejection = self.rejections.get(result)
        if rejection is not None and self._request.version >= RECORD_ERRORS_SINCE_VERSION:
            values["error_message"] = rejection.text
            values["record_errors"] = [
                {"batch_index": each.batch_index, "batch_index_error_message": each.text} for each in rejection.records
            ]
        return values
