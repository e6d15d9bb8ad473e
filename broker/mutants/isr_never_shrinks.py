"""A follower that no longer fetches stays in the ISR."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.replication.roles import Leader

if TYPE_CHECKING:
    from broker.mutants.settings import Settings


def apply(patch: Patch) -> None:
    patch.set(Leader, "_maybe_shrink", lambda self, now_ms: [])


def is_reached(settings: Settings) -> bool:
    return settings.has_lonely_follower
