"""Odd batches that are stored in a broker: no replica goes offline, no callback stalls, others are served."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest

from broker.log.errors import STORAGE_ERRORS, UnreadableBatchError
from broker.node.handlers import api_02_list_offsets
from broker.sim import fuzz_stored
from broker.sim.cluster import EXTERNAL
from broker.sim.costs import requests_charged
from broker.sim.fuzz_frames import FuzzError, Target
from broker.sim.fuzz_stored import Trust, list_offsets, produce
from broker.sim.seed_run import virtual_clocks
from broker.wire.compression import CodecId
from broker.wire.record_check import RECORDS_MAX
from tests.odd_batches import record, unreadable, with_records

BLOCKS = 4


@pytest.mark.long
def test_a_broker_survives_odd_records_and_serves_others_meanwhile() -> None:
    result = fuzz_stored.fuzz_stored(1, BLOCKS)
    assert result.refused > 5
    assert result.batches - result.refused > 5
    assert len(result.kinds) > 6


@contextmanager
def stored(*batches: bytes) -> Iterator[Target]:
    """A broker with these batches in its first partition, as if an earlier version had accepted them."""
    trust = Trust()
    try:
        with virtual_clocks(), requests_charged():
            target = Target(1)
            try:
                trust.is_set = True
                for batch in batches:
                    assert target.send(EXTERNAL, produce(0, batch)) == "answered"
                    target.check(strict=True)
                yield target
            finally:
                target.dispose()
    finally:
        trust.undo()


def test_a_look_up_that_meets_a_batch_that_nobody_can_read_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    with stored(unreadable(1_000)) as target:
        assert target.send(EXTERNAL, list_offsets(900)) == "answered"
        target.check(strict=True)
        fuzz_stored.hosted_of(target, 0)
        # The fuzzer sees it if the disk is blamed again.
        monkeypatch.setattr(api_02_list_offsets, "STORAGE_ERRORS", (*STORAGE_ERRORS, UnreadableBatchError))
        monkeypatch.setattr(api_02_list_offsets, "UnreadableBatchError", ZeroDivisionError)
        target.send(EXTERNAL, list_offsets(900))
        with pytest.raises(FuzzError, match="offline are"):
            fuzz_stored.hosted_of(target, 0)


def at_once(request: object, work: Iterable[object], done: Callable[[], None]) -> None:
    for _ in work:
        pass
    done()


@pytest.mark.slow
@pytest.mark.parametrize("is_in_turns", [True, False])
def test_headers_that_lie_about_their_times_stall_nobody(monkeypatch: pytest.MonkeyPatch, is_in_turns: bool) -> None:
    """Each of the batches must be unpacked and walked, for nothing: 131 ms each, by the costs of the simulation."""
    lies = with_records(b"".join(map(record, range(RECORDS_MAX))), RECORDS_MAX, max_timestamp=5_000, codec=CodecId.ZSTD)
    with stored(*[lies] * 8) as target:
        if not is_in_turns:
            monkeypatch.setattr(api_02_list_offsets, "in_turns", at_once)
        target.send(EXTERNAL, list_offsets(5_000))
        if is_in_turns:
            target.check_others()
            target.check(strict=True)
        else:
            with pytest.raises(FuzzError, match="one callback took 1"):
                target.check(strict=True)
