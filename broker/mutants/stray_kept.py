"""A log whose topic was deleted while its broker was down stays for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.replicas.log_recovery import LogRecovery

if TYPE_CHECKING:
    from broker.mutants.settings import Settings


def apply(patch: Patch) -> None:
    patch.set(LogRecovery, "discard_strays", lambda self, image: None)


def is_reached(settings: Settings) -> bool:
    return settings.has_aftermath
