"""What another priority would choose: each effect is told from a pair that differs in that setting alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from reports.figures.sweep.sweep_analysis import SweepAnalysis
from tests.reports.sweep_facts import BASELINE, analysed, cell_facts, judged

LOOSE = {"enable.idempotence": "false"}
BEST = {"batch.size": "131072"}


def sweep(cells: Sequence[tuple[Mapping[str, str], float, float]]) -> SweepAnalysis:
    """Of changes to the baseline with their p99 in us and their wire bytes, three times each."""
    return analysed(
        judged(
            [
                cell_facts(
                    {**BASELINE, **changes}, p99_us=p99_us * (1 + 0.001 * round_number), wire_bytes=wire_bytes,
                    repetition=round_number, baseline=not changes, properties=LOOSE if "acks" in changes else None,
                )
                for round_number in (1, 2, 3)
                for changes, p99_us, wire_bytes in cells
            ]
        )
    )  # fmt: skip


def change_of(analysis: SweepAnalysis) -> str:
    own = analysis.recommendation
    assert own.point is not None
    assert dict(own.point.configuration)["batch.size"] == "131072", "the sweep is one whose choice is not the baseline"
    (text,) = [one for one in own.sentences if one.startswith("What would change it: ")]
    return text


def test_what_a_codec_saves_is_told_against_the_one_that_differs_in_the_codec_alone() -> None:
    """A reader saw p99 +82 % here, which batch.size had its part in, beside +42 % in the table of effects."""
    text = change_of(sweep([({}, 20_000, 4_000), (BEST, 10_000, 4_000), ({"compression.type": "gzip"}, 30_000, 2_000)]))
    (told,) = re.findall(r"if bytes on the wire count most, ([^;]*)", text)
    assert re.search(r"compression\.type=gzip acks=all takes -50 % \([^)]*\) at p99 \+50 % \(", told), "not +200 %"
    assert told.endswith("against the baseline, and together with batch.size=131072 it was not measured")


def test_what_acks_all_costs_is_not_told_from_a_pair_that_differs_in_the_batch_too() -> None:
    """A reader saw that giving it up bought nothing, beside a p99 that is 38 % lower with acks=1."""
    text = change_of(sweep([({}, 20_000, 4_000), (BEST, 10_000, 4_000), ({"acks": "1"}, 12_000, 4_000)]))
    assert "bought no p99" not in text
    assert re.search(r"if losing acknowledged [^;]*acks=1 has p99 -40 % \([^)]*\), against the b", text)
    assert "and together with batch.size=131072 it was not measured" in text


def test_a_pair_that_was_measured_is_preferred_to_one_with_the_baseline() -> None:
    cells = [({}, 20_000.0, 4_000.0), (BEST, 10_000.0, 4_000.0), ({"acks": "1"}, 12_000.0, 4_000.0)]
    text = change_of(sweep([*cells, ({**BEST, "acks": "1"}, 9_000, 4_000)]))
    assert re.search(r"acks=1 has p99 -10(\.0)? % \([^)]*\), against the recommended one;", text)
    assert "was not measured" not in text


def test_what_giving_up_safety_did_not_buy_is_told_with_its_interval_and_against_what() -> None:
    text = change_of(sweep([({}, 20_000, 4_000), (BEST, 10_000, 4_000), ({"acks": "1"}, 20_000, 4_000)]))
    assert re.search(r"acks=1, which may lose [^;]* bought no p99[^;]*: [^;]*undecided, against", text)


def test_configurations_that_differ_in_more_are_told_as_a_whole() -> None:
    both = {"compression.type": "gzip", "linger.ms": "50"}
    text = change_of(sweep([({}, 20_000, 4_000), (BEST, 10_000, 4_000), (both, 30_000, 2_000)]))
    told = "against the recommended one, from which it differs in batch.size, compression.type and linger.ms"
    assert told in text
