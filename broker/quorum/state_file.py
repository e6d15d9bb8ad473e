"""The `quorum-state` file: JSON with the fields that Kafka writes (data_version 0). Text only; the node does the I/O."""

from __future__ import annotations

from broker.quorum.types import PersistedState


def encode_quorum_state(state: PersistedState, *, cluster_id: str, voters: tuple[int, ...]) -> str:
    raise NotImplementedError


def decode_quorum_state(text: str | None) -> PersistedState:
    """The state in the file; the initial state for None (no file yet). ValueError when the text is damaged."""
    raise NotImplementedError
