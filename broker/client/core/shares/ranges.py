"""Acknowledgements of single offsets as the batches of a request.

Shown by tests/broker_client/test_client_share_fetcher.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.client.core.shares.values import AcknowledgeType

Range = tuple[int, int, tuple[int, ...]]  # first offset, last offset, one type for all or one for each


def ranges_of(types: Mapping[int, AcknowledgeType]) -> list[Range]:
    """Ascending, without overlaps. Offsets that follow one another are one batch, with one type if all are equal."""
    found: list[Range] = []
    run: list[int] = []
    for offset in sorted(types):
        if run and offset != run[-1] + 1:
            found.append(_range(run, types))
            run = []
        run.append(offset)
    if run:
        found.append(_range(run, types))
    return found


def _range(run: list[int], types: Mapping[int, AcknowledgeType]) -> Range:
    kinds = tuple(int(types[offset]) for offset in run)
    return run[0], run[-1], kinds[:1] if len(set(kinds)) == 1 else kinds
