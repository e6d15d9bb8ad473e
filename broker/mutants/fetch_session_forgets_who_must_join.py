"""A fetch session no longer looks at a partition whose follower has everything but is not in the ISR yet."""

from __future__ import annotations

from broker.mutants import Patch
from broker.node.handlers import api_01_fetch


def apply(patch: Patch) -> None:
    patch.set(api_01_fetch._Fetch, "_may_idle", lambda self, session, hosted: True)
