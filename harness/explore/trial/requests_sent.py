"""Which requests a client was seen to send: what a later trial may disturb. Pure. Shown by
tests/harness/test_harness_explore_search.py and test_harness_explore_bench.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runlog.records.exchange import KafkaExchange


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How often a quiet run has asked one API, and in which version."""

    requests: int
    version: int


def uses_of(exchanges: Sequence[KafkaExchange]) -> dict[str, Use]:
    """By API, at the proxy that got most requests: a toxic counts for each by itself. The version is the newest."""
    counted = Counter((each.api, each.proxy) for each in exchanges)
    return {
        api: Use(
            requests=max(count for (counted_api, _), count in counted.items() if counted_api == api),
            version=max(each.api_version for each in exchanges if each.api == api),
        )
        for api in {each.api for each in exchanges}
    }


def most(one: Mapping[str, Use], other: Mapping[str, Use]) -> dict[str, Use]:
    """Of each API the use with more requests."""
    return {
        api: max((uses[api] for uses in (one, other) if api in uses), key=lambda use: use.requests)
        for api in one.keys() | other.keys()
    }
