"""What the generator reaches by itself is held only against cells with the same settings."""

from __future__ import annotations

from dataclasses import replace

from reports.figures import generator
from reports.judge.checks import PASS
from tests.reports.cells import changed, document_of
from tests.reports.sweep_facts import cell_facts, judged


def test_a_ceiling_of_other_settings_has_no_share_of_a_rate() -> None:
    """A capacity of 30,770 records/s stood beside a share of a ceiling of 10,254, which was that of a smaller batch."""
    own = cell_facts({"acks": "all"}, p99_us=1_000, throughput=1_000, asked=1_000)
    document = {**document_of(own.cell), "certificate": {"records_per_s": 1_300.0, "exact": False}}
    near = replace(own, cell=changed(own.cell, document=document))
    (item,) = judged([near])
    assert item.verdict.result == PASS
    shown = generator.figures(item)
    assert (shown["ceiling_records_per_s"], shown["ceiling_share"]) == (None, None)


def test_the_page_says_how_a_capacity_was_held_against_the_generator() -> None:
    def told(share: float) -> str:
        one = cell_facts({"acks": "all"}, p99_us=1.0, kind="ceiling", cpu_share=share)
        return generator.generator_figures(judged([one]), None).capacities

    assert "from 85% of a core on, or where that was not recorded, none is claimed; the most that was seen is 46%." in (
        told(0.46)
    )
    assert told(0.9).endswith("1 of 1 claim no capacity for that reason.")
    assert generator.generator_figures(judged([cell_facts({"acks": "all"}, p99_us=1.0)]), None).capacities == ""
