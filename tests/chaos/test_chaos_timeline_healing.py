"""Healing comes before every line about it, it goes on after any error, and what failed is told as ours."""

from __future__ import annotations

from typing import Any

import pytest

from chaos import timeline
from chaos.faults import FAULTS
from chaos.faults.base import heal_each
from tests.chaos.test_chaos_timeline import FakeClock, FakePort, RecordingFault, scenario

FULL = OSError(28, "No space left on device")


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Any:
    fault: Any = RecordingFault([])  # type: ignore[no-untyped-call]
    for name in ("one", "two", "late"):
        monkeypatch.setitem(FAULTS, name, fault.spec(name))
    return fault


def play(steps: list[dict[str, object]], is_full: Any) -> timeline.TimelineResult:
    """`is_full`: whether the disk has no room for this line."""
    clock: Any = FakeClock()

    def record(line: Any) -> None:
        if is_full(line):
            raise FULL

    port: Any = FakePort()
    return timeline.run(scenario(*steps), "c", port, record, clock=clock, topic="t", measure_start_us=clock.now_us())  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("phase", ["applied", "proved", "healed"])
def test_a_full_disk_keeps_no_fault_from_being_healed(faults: Any, phase: str) -> None:
    result = play(
        [{"id": "a", "fault": "one"}, {"id": "b", "fault": "late"}, {"id": "c", "fault": "two"}],
        lambda line: line.phase == phase,
    )
    done = [(what, name) for what, name, _ in faults.done]
    assert [name for what, name in done if what == "heal"] == [name for what, name in done if what == "inject"][::-1]
    assert "No space left" in result.problem
    assert result.unhealed == (), "all were healed"


def test_a_heal_that_failed_is_told_as_ours(faults: Any) -> None:
    faults.fails = ("heal",)
    result = play([{"id": "a", "fault": "one", "for": "1s"}], lambda _: False)
    assert result.unhealed == ("healing a failed: heal broke",) * 2, "it was tried again at the end"


def test_a_condition_that_does_not_come_is_not_ours(faults: Any) -> None:
    steps: list[dict[str, object]] = [
        {"id": "a", "fault": "one"}, {"id": "w", "when": "isr == 1", "within": "1s"},
    ]  # fmt: skip
    result = play(steps, lambda _: False)
    assert result.problem
    assert result.unhealed == ()


def test_each_item_is_healed_also_if_one_fails() -> None:
    healed: list[int] = []

    def heal(item: int) -> None:
        healed.append(item)
        if item == 1:
            raise FULL

    with pytest.raises(OSError, match="No space"):
        heal_each((1, 2, 3), heal)
    assert healed == [1, 2, 3]
