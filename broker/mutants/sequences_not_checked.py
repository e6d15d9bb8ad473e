"""Batches of idempotent producers are appended whatever their sequence."""

from __future__ import annotations

from broker.log.producers import ProducerState, Verdict
from broker.mutants import Patch


def apply(patch: Patch) -> None:
    patch.set(ProducerState, "check", lambda self, header, *, is_complete=False: (Verdict.OK, None))
