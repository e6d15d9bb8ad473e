"""FindCoordinator: which broker coordinates a group or a transactional id. One question, one answer; callers repeat."""

from __future__ import annotations

from broker.client.blocking import BlockingClient
from broker.client.core.errors import KafkaError, first_of
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, request

GROUP, TRANSACTION = 0, 1  # key types


def find_coordinator(client: BlockingClient, key_type: int, key: str, deadline_ms: int) -> int:
    """The broker's id; its address is known to the client afterwards. Raises KafkaError, as a rule a retriable one."""

    def build(version: int) -> Message:
        return request(ApiKey.FIND_COORDINATOR, version, key=key, key_type=key_type, coordinator_keys=[key])

    answer = client.call(None, ApiKey.FIND_COORDINATOR, build, deadline_ms)
    found = first_of(answer.coordinators) if hasattr(answer, "coordinators") else answer
    if found.error_code is not ErrorCode.none:
        raise KafkaError(found.error_code, f"coordinator of {key!r}: {found.error_message}")
    node_id: int = found.node_id
    if node_id not in client.metadata.brokers:
        client.fetch_metadata([], deadline_ms)
    return node_id
