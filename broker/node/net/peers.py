"""Which connections are another broker's. Clients may use the same listener as brokers (Apache Kafka's quick start has
only one). So the listener tells nothing: a connection counts as a client's until it has asked what only brokers ask,
under the id of a registered broker. With an authorizer, its principal must also have CLUSTER_ACTION.

Links between brokers and fetchers name their broker in the client id of every request.
Shown by tests/broker_node/test_node_shared_listener.py.
"""

from __future__ import annotations

from typing import Any, Final

from broker.controller.image import MetadataImage
from broker.node.net.requests import Request
from broker.security.acls import Operation
from broker.security.authorizer import Access, Authorizer
from broker.wire.apis import ApiKey

LINK, FETCHER = "broker-", "fetcher-"  # how the client ids of a broker's connections begin; then comes its id
_ID_DIGITS_MAX: Final = 10
_ONLY_BROKERS_ASK: Final = frozenset({
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
})  # fmt: skip
# What a client sends before it is known who it is.
FIRST_REQUESTS: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
VERIFIED_SINCE_VERSION: Final = 4  # From this version of AddPartitionsToTxn on brokers ask (KIP-890).


def claimed_broker(client_id: str | None) -> int | None:
    """The id of the broker that a client id names."""
    if client_id is None or not client_id.startswith((LINK, FETCHER)):
        return None
    digits = client_id.partition("-")[2]
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= _ID_DIGITS_MAX else None


def is_broker(request: Request[Any], image: MetadataImage, authorizer: Authorizer | None) -> bool:
    """Whether a registered broker has sent a request."""
    header = request.header
    broker_id = asking_broker(header.client_id, header.api_key, header.api_version, request.message)
    if broker_id is None or broker_id not in image.brokers:
        return False
    if authorizer is None:
        return True
    access = Access(authorizer, str(request.principal), request.peer_host.removeprefix("/"))
    return access.is_decidable and access.could_on_cluster(Operation.CLUSTER_ACTION)


def asking_broker(client_id: str | None, api_key: int, version: int, message: Any) -> int | None:
    """The id of the broker that asks, if only brokers ask this. The message has the type of its API."""
    claimed = claimed_broker(client_id)
    if claimed is None:
        return None
    if api_key == ApiKey.FETCH:
        state = getattr(message, "replica_state", None)
        named = getattr(message, "replica_id", -1)
        return claimed if claimed in (named, -1 if state is None else state.replica_id) else None
    if api_key == ApiKey.OFFSET_FOR_LEADER_EPOCH:
        return claimed if getattr(message, "replica_id", -1) == claimed else None
    if api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
        return claimed if version >= VERIFIED_SINCE_VERSION else None
    return claimed if api_key in _ONLY_BROKERS_ASK else None
