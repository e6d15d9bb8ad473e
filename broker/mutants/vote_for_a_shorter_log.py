"""A voter does not ask whether the candidate's log holds all of its own."""

from __future__ import annotations

from broker.mutants import Patch
from broker.quorum.core import Quorum


def apply(patch: Patch) -> None:
    patch.set(Quorum, "_is_up_to_date", lambda self, request: True)
