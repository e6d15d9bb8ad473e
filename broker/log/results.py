"""The results of an append to a log and of a truncation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.log.producers import Verdict
from broker.wire.records import BatchHeader


class AppendResult(NamedTuple):
    """Outcome of an append. For DUPLICATE it holds the offsets of the first append, for a refusal -1."""

    verdict: Verdict
    base_offset: int
    last_offset: int
    headers: Sequence[BatchHeader]


class TruncationResult(NamedTuple):
    """Records with to_offset <= offset < from_offset are gone."""

    from_offset: int
    to_offset: int
