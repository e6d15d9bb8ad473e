"""The vote is only remembered in memory."""

from __future__ import annotations

from broker.mutants import Patch
from broker.node.metadata_store import MetadataStore


def apply(patch: Patch) -> None:
    patch.set(MetadataStore, "persist_state", lambda self, state: None)
