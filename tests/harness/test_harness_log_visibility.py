"""The final read waits until leaders show all that they have."""

from __future__ import annotations

from typing import Any

import pytest

from harness.clusters.base import ClusterState, PartitionState
from harness.run.evidence.log_visibility import await_high_watermarks, await_markers

FULL = PartitionState(partition=0, leader=3, leader_epoch=2, isr=(1, 2, 3), replicas=(1, 2, 3))


class Healed:
    """One leader of two partitions; the high watermark of the second one rises with every look. It is the probe too."""

    def __init__(self, *high_watermarks: int, log_end: int | None = 850) -> None:
        self.high_watermarks, self.log_end = list(high_watermarks), log_end
        self.open = 0
        self.stable = [850]

    def state(self, topic: str | None) -> ClusterState | None:
        return ClusterState(brokers=(1, 2, 3), controller=1, partitions={0: FULL, 1: FULL})

    def probe_of_leader(self, topic: str, partition: int) -> Any:
        self.open += 1
        return self

    def close(self) -> None:
        self.open -= 1

    def epoch_end_offset(self, topic: str, partition: int, leader_epoch: int) -> tuple[int, int] | None:
        assert leader_epoch == 2
        return None if self.log_end is None else (2, self.log_end)

    def end_offset(self, topic: str, partition: int) -> int | None:
        if partition == 0:
            return 850
        return self.high_watermarks.pop(0) if len(self.high_watermarks) > 1 else self.high_watermarks[0]

    def stable_offset(self, topic: str, partition: int) -> int | None:
        return 850 if partition == 0 else self.stable.pop(0) if len(self.stable) > 1 else self.stable[0]


def wait(cluster: Any, timeout_s: float = 30.0) -> list[str]:
    return await_high_watermarks(cluster, ["t"], timeout_s=timeout_s, should_stop=lambda: False)


def test_a_high_watermark_that_has_not_begun_to_rise_is_waited_for() -> None:
    """Seen on a busy host: all 425 records that were acknowledged while followers were cut off were called lost."""
    cluster = Healed(425, 425, 425, 850)
    assert wait(cluster) == []
    assert cluster.high_watermarks == [850]
    assert cluster.open == 0


@pytest.mark.thorough
def test_one_that_never_catches_up_is_told_when_the_time_is_over() -> None:
    told = wait(Healed(425), timeout_s=0.2)
    assert told == ["t-1: the high watermark stands at 425, the leader's log ends at 850"]


def test_a_broker_that_does_not_tell_its_end_is_taken_at_its_word() -> None:
    assert wait(Healed(425, log_end=None)) == []
    assert wait(Healed(425, log_end=-1)) == []


def test_an_interrupted_run_waits_for_nothing() -> None:
    assert await_high_watermarks(Healed(425), ["t"], timeout_s=60, should_stop=lambda: True) == []  # type: ignore[arg-type]


def test_markers_of_transactions_are_waited_for() -> None:
    """A commit is answered before its markers are written: its records were called uncommitted, and so lost."""
    cluster: Any = Healed(850)
    cluster.stable = [700, 700, 850]
    assert await_markers(cluster, ["t"], timeout_s=30.0, should_stop=lambda: False) == []
    assert (cluster.stable, cluster.open) == ([850], 0)


def test_a_transaction_that_stays_open_is_told() -> None:
    cluster: Any = Healed(850)
    cluster.stable = [700]
    told = await_markers(cluster, ["t"], timeout_s=0.0, should_stop=lambda: False)
    assert told == ["t-1: open from offset 700, the end offset is 850"]
