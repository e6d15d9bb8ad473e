"""Sets of sequence numbers as bits are those that plain sets would be, and windows hold every number once."""

from __future__ import annotations

import numpy as np
import pytest

from runlog.streams.seq_bits import SeqBits, windows


@pytest.mark.parametrize("first", [0, 64, 1_000])
def test_marks_count_what_came_before_or_comes_again(first: int) -> None:
    rng = np.random.default_rng(first)
    bits, known, again = SeqBits(first, first + 777), set[int](), 0
    for _ in range(20):
        seqs = rng.integers(first - 200, first + 900, 150)
        inside = [seq for seq in seqs.tolist() if first <= seq < first + 777]
        expected = len(inside) - len(set(inside) - known)
        known |= set(inside)
        assert bits.mark(seqs) == expected
        again += expected
    assert again > 0
    missing = [seq for some in bits.missing() for seq in some.tolist()]
    assert missing == sorted(set(range(first, first + 777)) - known)


def test_what_is_in_one_set_and_not_in_the_other_is_counted() -> None:
    rng = np.random.default_rng(1)
    here, there = SeqBits(128, 1_000), SeqBits(128, 900)
    some, others = rng.integers(128, 1_000, 400), rng.integers(128, 900, 400)
    here.mark(some)
    there.mark(others)
    assert here.count_without(there) == len(set(some.tolist()) - set(others.tolist()))


def test_an_empty_set_has_no_number() -> None:
    bits = SeqBits(64, 10)
    assert bits.mark(np.arange(100)) == 0
    assert list(bits.missing()) == []


@pytest.mark.parametrize("bits_max", [1, 64, 100, 1 << 20])
def test_windows_hold_every_number_once_and_their_bits_have_a_bound(bits_max: int) -> None:
    highest = {(0, 0): 999, (1, 0): -1, (1, 1): 130}
    found = list(windows(highest, bits_max))
    numbers = [seq for first, end in found for seq in range(first, end)]
    assert numbers[:1_000] == list(range(1_000))
    for first, end in found:
        held = [SeqBits(first, min(end, high + 1)).size_bytes for high in highest.values()]
        assert sum(held) * 8 <= max(bits_max, 64 * len(highest)) + 8 * len(highest)
    assert list(windows({}, bits_max)) == []


def test_starts_that_ended_long_before_the_longest_do_not_make_its_windows_small() -> None:
    """Each window reads the run log once."""
    assert len(list(windows({(0, 0): 10**8, **{(producer, 0): 10**5 for producer in range(1, 1_000)}}))) <= 5
