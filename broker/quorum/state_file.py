"""The `quorum-state` file: JSON with the fields that Kafka writes. Text only; the node does the I/O.

The node writes it to a temporary file, renames that over the old one, and only then performs the next action.
"""

from __future__ import annotations

import json

from broker.quorum.types import NO_NODE, PersistedState

DATA_VERSION = 0


def encode_quorum_state(state: PersistedState, *, cluster_id: str, voters: tuple[int, ...]) -> str:
    document = {
        "clusterId": cluster_id,
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": voter} for voter in voters],
        "data_version": DATA_VERSION,
    }
    return json.dumps(document, separators=(",", ":"))


def decode_quorum_state(text: str | None) -> PersistedState:
    """The state in the file, or the initial state for None (no file yet). Raises ValueError if the text is damaged."""
    if text is None:
        return PersistedState()
    try:
        document = json.loads(text)
        if document["data_version"] != DATA_VERSION:
            raise ValueError(f"data_version {document['data_version']}, expected {DATA_VERSION}")
        return PersistedState(
            leader_epoch=int(document["leaderEpoch"]),
            leader_id=int(document.get("leaderId", NO_NODE)),
            voted_id=int(document.get("votedId", NO_NODE)),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"quorum-state is damaged: {error!r}; text: {text[:200]!r}") from error
