"""FindCoordinator: which broker coordinates a group or a transactional id. One question, one answer; callers repeat."""

from __future__ import annotations

from broker.client.blocking import BlockingClient
from broker.client.questions import coordinator_of


def find_coordinator(client: BlockingClient, key_type: int, key: str, deadline_ms: int) -> int:
    """The broker's id; its address is known to the client afterwards. Raises KafkaError, as a rule a retriable one."""
    node_id = client.ask(None, coordinator_of(key_type, key), deadline_ms)
    if node_id not in client.metadata.brokers:
        client.fetch_metadata([], deadline_ms)
    return node_id
