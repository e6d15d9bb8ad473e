"""The topics in which coordinators keep their state. Clients may read them, but only the coordinators write to them.

If another client wrote a record, a coordinator might fail to load its partition. As in Kafka, there is an exception for
the client id `__admin_client`, for repairs by hand.
"""

from __future__ import annotations

from broker.node.coordination.groups import OFFSETS_TOPIC
from broker.node.coordination.share_states import TOPIC as SHARES_TOPIC
from broker.node.coordination.transactions import TOPIC as TRANSACTIONS_TOPIC

INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, SHARES_TOPIC, TRANSACTIONS_TOPIC})
REPAIRING_CLIENT_ID = "__admin_client"


def is_internal(topic: str) -> bool:
    return topic in INTERNAL_TOPICS


def may_produce(topic: str, client_id: str) -> bool:
    return topic not in INTERNAL_TOPICS or client_id == REPAIRING_CLIENT_ID
