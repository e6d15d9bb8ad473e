"""The API and version of each request from one voter to another."""

from __future__ import annotations

from broker.quorum.types import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    VoteRequest,
)
from broker.wire.apis import ApiKey

# The versions that broker.quorum.messages maps.
API_OF: dict[type, tuple[ApiKey, int]] = {
    VoteRequest: (ApiKey.VOTE, 2),
    BeginQuorumEpochRequest: (ApiKey.BEGIN_QUORUM_EPOCH, 1),
    EndQuorumEpochRequest: (ApiKey.END_QUORUM_EPOCH, 1),
    FetchRequest: (ApiKey.FETCH, 18),
    FetchSnapshotRequest: (ApiKey.FETCH_SNAPSHOT, 1),
}
