"""Produce (key 0), versions 3-13: appends batches with acks 0, 1 or all, also of idempotent and transactional
producers. Version 0 is advertised as the lowest (KAFKA-18659), but versions 0-2 are refused.

There is one batch per partition, as Kafka requires since version 3. The handler checks header, CRC, size and the
structure of the records. The base offset is written into the batch in place, and each append is one write. If a topic
has message.timestamp.type=LogAppendTime (KIP-32), each batch gets the broker's time. With harness.discard=true the
handler stops after the checks: batches are acknowledged, but not stored. The first batch of a transaction waits until
the coordinator has confirmed that the partition belongs to the transaction (KIP-890). Since version 12 that question
adds the partition. Checks that depend on the topic's settings (timestamps, keys, compression.type) are in
broker/node/replicas/produce_checks.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.node.handlers.partition_produce import PartitionProduce
from broker.node.handlers.produce_answer import ProduceAnswer
from broker.node.handlers.services import Services
from broker.node.net.requests import Request
from broker.node.net.time_slices import in_turns
from broker.security.acls import Operation, ResourceType
from broker.security.authorizer import Access
from broker.wire.errors import ErrorCode
from broker.wire.hot_produce import TOPIC_IDS_SINCE_VERSION, PartitionAnswer

if TYPE_CHECKING:
    from broker.wire.shapes import produce as shapes

TOPIC = ResourceType.TOPIC
# the position of the lower byte of a batch's attributes, and the bit for a transactional batch
FLAGS, TRANSACTIONAL = 22, 0x10
# The error of a denied request: for one partition because of its topic, or for all because of the transactional id.
_DENIED = (ErrorCode.topic_authorization_failed, ErrorCode.transactional_id_authorization_failed)
_NONE = ErrorCode.none  # looked up once, because each access to a member of an enum costs 70 ns


def handle(services: Services, request: Request[shapes.ProduceRequest]) -> None:
    """The work is done in turns of the event loop. Otherwise batches of many partitions, which may unpack to a lot of
    data, would block the loop for seconds."""
    answer = ProduceAnswer(request)

    def done() -> None:
        if request.message.acks != 0:
            answer.done()
        elif answer.has_failed:
            request.close_connection()  # the only way to report an error to a client that wants no answer
        else:
            request.respond_nothing()

    in_turns(request, _partitions(services, request, answer), done)


def _partitions(services: Services, request: Request[shapes.ProduceRequest], answer: ProduceAnswer) -> Iterator[None]:
    """Handles one partition after the other."""
    by_id = request.version >= TOPIC_IDS_SINCE_VERSION
    access = request.access
    refused = access is not None and not _may_be_transactional(access, request.message)
    for topic in request.message.topic_data:
        name = services.metadata.image.topic_names.get(topic.topic_id) if by_id else topic.name
        if not topic.partition_data:
            continue
        partitions = answer.topic(topic.topic_id if by_id else topic.name)
        for data in topic.partition_data:
            result = PartitionAnswer(data.index)
            partitions.append(result)
            if access is not None and (refused or not (name is None or access.may(Operation.WRITE, TOPIC, name))):
                result.error_code = _DENIED[refused]
                answer.has_failed = True
                yield
                continue
            hosted = None if name is None else services.partitions.get(name, data.index)
            if hosted is None:
                error = _absent(services, name, data.index, by_id=by_id)
            else:
                error = PartitionProduce(services, request, answer, result, hosted, data.records).run()
            if error is not _NONE:
                result.error_code = error
                answer.has_failed = True
            yield


def _may_be_transactional(access: Access, message: shapes.ProduceRequest) -> bool:
    """A client that writes a transactional batch must be allowed to use the transactional id."""
    batches = (data.records for topic in message.topic_data for data in topic.partition_data)
    if not any(batch is not None and len(batch) > FLAGS and batch[FLAGS] & TRANSACTIONAL for batch in batches):
        return True
    transactional_id = message.transactional_id
    return transactional_id is not None and access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def _absent(services: Services, name: str | None, index: int, *, by_id: bool) -> ErrorCode:
    """The error for a partition that this broker does not host. It depends on whether the partition exists
    elsewhere."""
    if name is None:
        return ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
    return services.absent(name, index)
