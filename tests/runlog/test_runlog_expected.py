"""What is wrong with a value is told in our words, with what was expected and the nearest choice."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.suite import Suite
from harness.suite_source import parse_source, validate
from runlog.files.expected import expectation

WORKLOAD = {
    "rate_per_s": "100", "record_size_bytes": "100", "producers": "1", "consumers": "1", "warmup_ms": "1000",
    "measure_ms": "3000", "drain_ms": "1000",
}  # fmt: skip


def told(more: str = "", **changed: str) -> str:
    workload = ", ".join(f"{key}: {value}" for key, value in {**WORKLOAD, **changed}.items())
    with pytest.raises(UsageError) as error:
        validate(parse_source(f"name: x\nworkload: {{{workload}}}\n{more}\n", "x.yaml"), Suite)
    return str(error.value)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rate_per_s": "fast"}, "workload.rate_per_s: expected a number, got 'fast'"),
        ({"record_size_bytes": "-1"}, "workload.record_size_bytes: expected 32 or more, got -1"),
        ({"producers": "1.5"}, "workload.producers: expected a whole number, got 1.5"),
        ({"consumers": "[1]"}, "workload.consumers: expected a whole number, got a list"),
        ({"schedule": "{kind: poison}"}, "kind' is 'poison'; expected one of 'constant', "),
        ({"schedule": "{kind: poison}"}, "did you mean 'poisson'?"),
    ],
)
def test_a_wrong_figure_is_told_with_what_was_expected(changed: dict[str, str], words: str) -> None:
    assert words in told(**changed)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("cluster: {brokers: 99}", "x.yaml:3: cluster.brokers: expected 9 or less, got 99"),
        ("cluster: {host: localhost}", "cluster.host: expected '127.0.0.1' or '::1', got 'localhost'"),
        ("topic: 5", "topic: expected a mapping of keys, got 5"),
        ("sweep: {baseline: {}, vary: {}, design: gird}", "'latin-hypercube', got 'gird'; did you mean 'grid'?"),
        ("limits: 4", "limits: expected a list, got 4"),
        ("description: 5", "description: expected a text, got 5"),
        ("chaos: {scenario: x}", "chaos: expected a list, got a mapping"),
    ],
)
def test_a_wrong_part_is_told_with_what_was_expected(more: str, words: str) -> None:
    text = told(more)
    assert words in text
    assert "Input should" not in text


def test_a_sentence_of_ours_stays() -> None:
    assert expectation({"type": "value_error", "msg": "Value error, 5 is too odd", "input": 5}) == "5 is too odd"
