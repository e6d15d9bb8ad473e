"""The shipped client in Python, with a library that does what is asked of it: a rebalance within a poll."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import workloads.clients.process


class Message:
    def __init__(self, partition: int, offset: int) -> None:
        self._partition, self._offset = partition, offset

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def error(self) -> None:
        return None

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes:
        return b"x"

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def headers(self) -> None:
        return None


Teller = Callable[["Consumer", list[Message]], None]


class Consumer:
    """Gives one record of partition 0 and one of partition 1, and takes partition 0 away in the call between them."""

    def __init__(self) -> None:
        self.calls = 0

    def subscribe(self, topics: list[str], assigned: Teller, revoked: Teller, lost: Teller) -> None:
        self.revoked = revoked

    def consume(self, most: int, timeout_s: float) -> list[Message]:
        self.calls += 1
        if self.calls % 2:
            return [Message(0, 7)]
        taken = Message(0, 0)
        taken.topic, taken.partition = "t", 0  # type: ignore[assignment,method-assign]
        self.revoked(self, [taken])
        return [Message(1, 3)]


@pytest.fixture
def program() -> ModuleType:
    path = Path(workloads.clients.process.__file__).parent / "shipped" / "python" / "client.py"
    spec = importlib.util.spec_from_file_location("shipped_python_client", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("is_auto_commit", "expected"), [(False, [(1, 3)]), (True, [(0, 7), (1, 3)])])
def test_a_record_whose_partition_is_taken_away_within_the_poll_is_not_told_after_that_unless_it_may_be_committed(
    program: ModuleType,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_auto_commit: bool,
    expected: list[tuple[int, int]],
) -> None:
    monkeypatch.setattr(program.kafka, "Consumer", lambda settings: Consumer())
    client = program.Client()
    client.connect("consumer", {"enable.auto.commit": str(is_auto_commit).lower()}, 1_000)
    client.subscribe(["t"])
    for number in range(2):  # What was taken away once may be given again.
        client.poll(number, 1_000, 500)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["event"] for each in told] == ["revoked", "polled"] * 2
    for each in told[1::2]:
        assert [(record["partition"], record["offset"]) for record in each["records"]] == expected
