"""A broker stays eligible to lead after an unclean shutdown, which may have cost it records (against KIP-966)."""

from __future__ import annotations

from typing import Any

from broker.controller import brokers
from broker.mutants import Patch


def apply(patch: Patch) -> None:
    def changes_without(*values: Any, has_lost: bool = False, **options: Any) -> Any:
        return original(*values, **options)

    original = patch.set(brokers, "changes_without", changes_without)
