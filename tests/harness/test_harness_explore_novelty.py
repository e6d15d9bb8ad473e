"""`harness.explore.search.novelty`: what is new, how much is left, and programs that are like others."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from harness.explore.generators.programs import drawn
from harness.explore.generators.shrink import is_lawful
from harness.explore.search.novelty import Met, features, vary
from harness.explore.trial.history import Change, Connected, Fate, History, Outcome, Rebalance
from runlog.records.exchange import ExchangeOutcome, KafkaExchange


def exchange(api: str, *codes: int, outcome: ExchangeOutcome = ExchangeOutcome.DELIVERED) -> KafkaExchange:
    return KafkaExchange(
        mono_ns=1, ended_ns=2, proxy="client-1", connection=1, api=api, api_version=1, correlation_id=1,
        request_bytes=10, error_codes=codes, outcome=outcome,
    )  # fmt: skip


def test_features_are_codes_outcomes_and_orders() -> None:
    assigned = Rebalance(at_us=5, change=Change.ASSIGNED, partitions=frozenset({0}))
    unknown = Outcome(at_us=6, seq=1, fate=Fate.UNKNOWN, code=7)
    history = History(
        happened=(Connected(at_us=1), assigned, unknown),
        log=(),
        exchanges=(exchange("Metadata"), exchange("Produce", 6, outcome=ExchangeOutcome.REFUSED)),
    )
    assert features(history) == {
        "Produce answered 6",
        "Produce refused",
        "Metadata then Produce",
        "assigned",
        "unknown 7",
        "assigned then unknown 7",
    }


def test_equal_histories_at_other_times_have_equal_features() -> None:
    def at(us: int) -> History:
        return History(happened=(Outcome(at_us=us, seq=us, fate=Fate.ACKNOWLEDGED, offset=us),), log=())

    assert features(at(5)) == features(at(900))


def test_what_is_left_is_estimated_from_what_was_met_once_and_twice() -> None:
    met = Met()
    assert met.add(frozenset({"a", "b", "c"})) == {"a", "b", "c"}
    assert met.add(frozenset({"a", "d"})) == {"d"}
    assert (met.count, met.unseen) == (4, 3 * 2 / (2 * 2))
    for _ in range(3):
        assert met.add(frozenset({"a", "b", "c", "d"})) == frozenset()
    assert met.unseen == 0


@given(st.integers(0, 5_000))
def test_a_varied_program_is_lawful_and_like_the_first(seed: int) -> None:
    program = drawn(("produce", "assign", "subscribe", "seek", "pause", "commit", "transactions"), seed)
    assert program is not None
    other = vary(program, random.Random(seed), "another")
    assert is_lawful(other, other.moves)
    assert (other.name, other.role, other.properties) == ("another", program.role, program.properties)
    assert abs(len(other.moves) - len(program.moves)) <= 4
