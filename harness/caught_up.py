"""Whether a consumer group has caught up with a topic. Then a record that it did not get is lost, and not only unread.

Asks the brokers directly, never through the proxies that carry the faults. Shown by
tests/harness/test_harness_caught_up.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from broker.door.clients import Admin, KafkaError

_PAUSE_S: Final = 0.2
_ASK_TIMEOUT_MS: Final = 5_000
Offsets = Mapping[int, int]  # The key is the partition.


def group_lag(group: str, topic: str, ends: Offsets, *, bootstrap_servers: str, timeout_s: float) -> str:
    """How far the group lags behind `ends` after `timeout_s`; empty as soon as it does not."""
    timeouts = {"default.api.timeout.ms": _ASK_TIMEOUT_MS, "request.timeout.ms": _ASK_TIMEOUT_MS}
    with Admin({"bootstrap.servers": bootstrap_servers, **timeouts}) as admin:

        def committed() -> Offsets:
            try:
                found = admin.groups.offsets(group)
            except KafkaError:  # no coordinator yet: nothing is known to be committed
                return {}
            return {each.partition: at.offset for each, at in found.items() if each.topic == topic}

        return wait_caught_up(committed, ends, timeout_s=timeout_s)


def wait_caught_up(
    committed: Callable[[], Offsets],
    ends: Offsets,
    *,
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Empty once what is committed has reached `ends`; else how far it lags after `timeout_s`."""
    deadline = clock() + timeout_s
    while True:
        behind = lag_words(committed(), ends)
        if not behind or clock() >= deadline:
            return behind
        sleep(_PAUSE_S)


def lag_words(committed: Offsets, ends: Offsets) -> str:
    """How far the group lags, for each partition that is not committed to its end."""
    parts = []
    for partition, end in sorted(ends.items()):
        at = committed.get(partition)
        if end and (at is None or at < end):
            told = "nothing committed" if at is None else f"committed {at:,}"
            parts.append(f"partition {partition}: {told} of {end:,}")
    return "; ".join(parts)
