"""`harness bench`: a suite of one configuration, made from the command line.

Shown by tests/harness/test_harness_bench.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.errors import UsageError
from harness.suite import Suite
from harness.suite_source import Source, validate
from reports.judge.limit_grammar import LimitError, parse_limit
from runlog.files.redaction import hidden_assignment, is_secret

MAX: Final = "max"
_P99: Final = "p99_ms"
_RATE_MAX_PER_S: Final = 10_000_000
_SEARCHED_PER_S: Final = (500, 400_000)
_NAME_CHARACTERS_MAX: Final = 80
_WARMUP_MS: Final = 3_000
_DRAIN_MS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """`settings` are NAME=VALUE in Kafka's names; `rate` is records a second of all producers together, or max."""

    rate: str
    size_bytes: int
    seconds: int
    repetitions: int
    forks: int  # number of clusters over which the repetitions are distributed
    producers: int
    partitions: int
    replication_factor: int = 3
    client: str
    settings: tuple[str, ...]
    limits: tuple[str, ...] = ()  # `p99_ms <= 50`


def bench_suite(question: Question) -> Suite:
    """UsageError names the wrong word."""
    properties = {"acks": "all", **dict(_assignment(text) for text in question.settings)}
    rate = _SEARCHED_PER_S[0] if question.rate == MAX else _rate(question.rate)
    document: dict[str, Any] = {
        "name": "bench",
        "description": " ".join(["bench", f"--rate {question.rate} --size {question.size_bytes}", *sorted(properties)]),
        "client": question.client,
        "limits": list(question.limits),
        "topic": {"partitions": question.partitions, "replication_factor": question.replication_factor},
        "workload": {
            "rate_per_s": rate, "record_size_bytes": question.size_bytes, "producers": question.producers,
            "consumers": 1, "warmup_ms": _WARMUP_MS, "measure_ms": question.seconds * 1_000, "drain_ms": _DRAIN_MS,
        },
    }  # fmt: skip
    if question.rate == MAX:
        low, high = _SEARCHED_PER_S
        search: dict[str, Any] = {"properties": properties, "low_per_s": low, "high_per_s": high}
        p99s_ms = [p99_ms for text in question.limits if (p99_ms := _p99_of_search(text)) is not None]
        if p99s_ms:
            search["contract"] = {"p99_ms": min(p99s_ms)}
        document["search"] = search
        document["limits"] = [text for text in question.limits if _p99_of_search(text) is None]
    else:
        document["sweep"] = {
            "baseline": properties, "baseline_name": _named(properties), "vary": {},
            "repetitions": question.repetitions, "forks": min(question.forks, question.repetitions),
        }  # fmt: skip
    source = Source(name="harness bench", data=document, lines={})
    suite = validate(source, Suite)
    suite._source = source
    return suite


def _p99_of_search(text: str) -> float | None:
    """The bound of a p99 that the rate which is searched must keep. None for any other limit.

    It is no limit of the search's cells: some go above the rate that is kept, on purpose. UsageError for a bound that
    no rate can keep. What is no limit at all is told when the suite is checked.
    """
    try:
        limit = parse_limit(text)
    except LimitError:
        return None
    if not limit.is_of_cell or limit.figure.name != _P99:
        return None
    if limit.comparison not in ("<", "<=") or limit.is_relative or limit.bound <= 0:
        raise UsageError(
            f"--limit {text!r}: with --rate {MAX} it is the p99 that the rate must keep: expected {_P99} <= NUMBER, "
            "more than 0"
        )
    return limit.bound


def _named(properties: Mapping[str, str]) -> str:
    """What is measured, in the order of the command line; no secret."""
    return " ".join(f"{name}={value}" for name, value in properties.items() if not is_secret(name))[
        :_NAME_CHARACTERS_MAX
    ]


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"bench {hidden_assignment(text)}: expected NAME=VALUE, as in linger.ms=5")
    return name.strip(), value.strip()


def _rate(text: str) -> float:
    try:
        rate = float(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise UsageError(f"--rate {text}: expected records a second, or {MAX}{_in_full(text)}") from None
    if not 0 < rate <= _RATE_MAX_PER_S:
        raise UsageError(f"--rate {text}: expected more than 0, at most {_RATE_MAX_PER_S:,}, or {MAX}")
    return rate


def _in_full(text: str) -> str:
    """What somebody meant who wrote 5k. Empty if it is nothing of the kind."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([km])(?:/s)?", text.strip().lower())
    return f"; did you mean {float(found[1]) * (1_000 if found[2] == 'k' else 1_000_000):.0f}?" if found else ""
