"""The file of the vote is replaced, but its directory is not synced: a loss of power brings the old one back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.cluster.metadata_store import MetadataStore
from broker.quorum.state_file import encode_quorum_state
from broker.quorum.types import PersistedState

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def persist_state(self: MetadataStore, state: PersistedState) -> None:
    text = encode_quorum_state(state, cluster_id=self._cluster_id, voters=self._voters)
    self._filesystem.write_atomically(self._state_path, text.encode())


def apply(patch: Patch) -> None:
    patch.set(MetadataStore, "persist_state", persist_state)


def is_reached(plan: SeedPlan) -> bool:
    return plan.directed == "crash after vote" and not plan.can_lose_power_unsynced
