"""The key of a record follows from its sequence number, for whoever makes it and for whoever looks for it."""

from __future__ import annotations

from collections import Counter

import pytest

from runlog.streams.record_keys import TURNS, fingerprint, key_name, key_numbers
from workloads.keys import key_sequence
from workloads.model import Workload


@pytest.mark.parametrize("keys", ["uniform", "zipf", "hot"])
def test_the_load_sends_the_keys_that_the_analysis_looks_for(keys: str) -> None:
    sent = key_sequence(Workload.model_validate({"rate_per_s": 1, "keys": keys, "key_count": 7}), seed=5)
    numbers = key_numbers(keys, count=7, zipf_exponent=1.0, hot_share=0.5, seed=5)
    assert sent is not None
    assert numbers is not None
    assert [key_name(number) for number in numbers.tolist()] == list(sent)
    assert len(sent) == TURNS
    assert len(Counter(sent)) == 7


def test_a_fingerprint_tells_other_draws_apart() -> None:
    drawn = [key_numbers("uniform", count=7, zipf_exponent=1.0, hot_share=0.5, seed=seed) for seed in (1, 1, 2)]
    first, same, other = [fingerprint(numbers) for numbers in drawn if numbers is not None]
    assert first == same != other


def test_records_without_keys_have_none() -> None:
    assert key_numbers("none", count=7, zipf_exponent=1.0, hot_share=0.5, seed=1) is None
