"""ElectLeaders (key 43), versions 0-2 (KIP-183, KIP-460): a preferred election, and since version 1 also an unclean
one.

On a client listener it is forwarded to the controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller.types import ElectLeaders, ElectLeadersResponse
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import elect_leaders as shapes

PREFERRED, UNCLEAN = 0, 1


def refusal(services: Services, request: AnyRequest[shapes.ElectLeadersRequest]) -> shapes.ElectLeadersResponse | None:
    if _kind(request.message) not in (PREFERRED, UNCLEAN) and request.message.topic_partitions != ():
        return _failed(request, ErrorCode.invalid_request)
    return None


def _kind(message: shapes.ElectLeadersRequest) -> int:
    kind: int = field_or(message, "election_type", PREFERRED)
    return kind


def event(services: Services, request: AnyRequest[shapes.ElectLeadersRequest]) -> MakeEvent:
    message = request.message
    partitions = None
    if message.topic_partitions is not None:
        partitions = tuple((each.topic, index) for each in message.topic_partitions for index in each.partitions)
    return lambda token: ElectLeaders(token=token, unclean=_kind(message) == UNCLEAN, partitions=partitions)


def answer(
    services: Services, request: AnyRequest[shapes.ElectLeadersRequest], result: ElectLeadersResponse
) -> shapes.ElectLeadersResponse:
    if result.error_code != ErrorCode.none:
        return _failed(request, ErrorCode(result.error_code))
    # If the request asks for all partitions, the answer names every topic, but only partitions with something to do.
    asked = request.message.topic_partitions
    named = list(services.metadata.image.topics) if asked is None else [each.topic for each in asked]
    topics: dict[str, list[shapes.PartitionResultFields]] = {name: [] for name in named}
    for each in result.partitions:
        outcome: shapes.PartitionResultFields = {
            "partition_id": each.partition,
            "error_code": each.error_code,
            "error_message": each.error_message,
        }
        topics.setdefault(each.topic, []).append(outcome)
    results: list[shapes.ReplicaElectionResultFields] = [
        {"topic": topic, "partition_result": outcomes} for topic, outcomes in topics.items()
    ]
    version = request.version
    return response(ApiKey.ELECT_LEADERS, version, error_code=ErrorCode.none, replica_election_results=results)


def _failed(request: AnyRequest[shapes.ElectLeadersRequest], error: ErrorCode) -> shapes.ElectLeadersResponse:
    """Version 0 has no error for the whole answer, so each partition gets the error."""
    results: list[shapes.ReplicaElectionResultFields] = [
        {
            "topic": each.topic,
            "partition_result": [
                {"partition_id": index, "error_code": error, "error_message": None} for index in each.partitions
            ],
        }
        for each in request.message.topic_partitions or ()
    ]
    return response(ApiKey.ELECT_LEADERS, request.version, error_code=error, replica_election_results=results)


CONTROLLER = ControllerApi(event=event, answer=answer)
FORWARD: Forward[shapes.ElectLeadersRequest, shapes.ElectLeadersResponse] = Forward(
    version=2, failed=lambda request, error, cause: _failed(request, error)
)
