"""FindCoordinator: which broker coordinates a group or a transactional id. It asks once. The callers repeat it."""

from __future__ import annotations

from broker.client.blocking import BlockingClient
from broker.client.questions import coordinator_of


def find_coordinator(client: BlockingClient, key_type: int, key: str, deadline_ms: int) -> int:
    """Returns the broker's id. Afterwards the client knows the address of that broker. Raises KafkaError, which is
    usually retriable."""
    node_id = client.ask(None, coordinator_of(key_type, key), deadline_ms)
    if node_id not in client.metadata.brokers:
        client.fetch_metadata([], deadline_ms)
    return node_id
