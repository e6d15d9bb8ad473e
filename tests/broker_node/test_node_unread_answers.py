"""The budget of answers that nobody reads: who has to make room, and that it is never exceeded."""

from __future__ import annotations

import random

import pytest

from broker.node.net.unread_answers import UnreadAnswers


class Peer:
    def __init__(self, budget: list[UnreadAnswers]) -> None:
        self.unsent_bytes = 0
        self.is_aborted = False
        self._budget = budget

    def abort(self) -> None:
        self.is_aborted = True
        self.unsent_bytes = 0

    def holds(self, size_bytes: int) -> None:
        self.unsent_bytes = size_bytes
        self._budget[0].note(self)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    now_ms = [0]
    monkeypatch.setattr("broker.node.net.unread_answers.monotonic_ms", lambda: now_ms[0])
    return now_ms


def _budget(limit_bytes: int) -> tuple[list[UnreadAnswers], list[int]]:
    ended: list[int] = []
    return [UnreadAnswers(limit_bytes=limit_bytes, on_end=lambda _, size_bytes: ended.append(size_bytes))], ended


def test_who_has_read_nothing_for_the_longest_time_makes_room(clock: list[int]) -> None:
    budget, ended = _budget(100)
    reader, stuck, late = (Peer(budget) for _ in range(3))
    reader.holds(60)
    clock[0] = 10
    stuck.holds(40)
    clock[0] = 20
    reader.unsent_bytes = 55  # it came first, and reads on
    late.holds(20)
    assert [stuck.is_aborted, reader.is_aborted, late.is_aborted] == [True, False, False]
    assert ended == [40]
    assert budget[0].total_bytes == 75


def test_of_two_as_old_the_larger_one_makes_room(clock: list[int]) -> None:
    budget, _ = _budget(100)
    small, large, third = (Peer(budget) for _ in range(3))
    small.holds(30)
    large.holds(60)
    clock[0] = 5
    third.holds(20)
    assert [small.is_aborted, large.is_aborted] == [False, True]


def test_what_was_read_or_is_gone_counts_no_more(clock: list[int]) -> None:
    budget, ended = _budget(100)
    first, second = Peer(budget), Peer(budget)
    first.holds(90)
    budget[0].forget(first)
    second.holds(90)
    assert not ended
    assert budget[0].total_bytes == 90
    budget[0].forget(second)
    budget[0].forget(second)
    assert budget[0].total_bytes == 0


def test_never_more_is_held_than_the_limit(clock: list[int]) -> None:
    rng = random.Random(1)
    budget, _ = _budget(1_000)
    peers = [Peer(budget) for _ in range(20)]
    for _ in range(3_000):
        clock[0] += rng.randrange(3)
        peer = rng.choice(peers)
        if rng.random() < 0.2:
            peer.unsent_bytes = 0
            budget[0].forget(peer)
        elif not peer.is_aborted:
            peer.holds(peer.unsent_bytes + rng.randrange(300))
        for each in peers:
            each.is_aborted = False  # another connection takes its place
            if rng.random() < 0.3:
                each.unsent_bytes = max(0, each.unsent_bytes - rng.randrange(50))
        held = sum(each.unsent_bytes for each in peers)
        assert held <= budget[0].total_bytes <= 1_000
