"""A voter does not ask whether the candidate's log holds all of its own."""

from __future__ import annotations

from broker.mutants import Patch
from broker.quorum.voter import Voter


def apply(patch: Patch) -> None:
    patch.set(Voter, "is_up_to_date", lambda self, request: True)
