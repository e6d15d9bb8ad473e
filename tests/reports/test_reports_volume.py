"""Bytes, and what they cost, follow from records: they are never a figure of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports.judge.broker_cpu import broker_cpu
from reports.judge.volume import volume_of
from reports.read.model import Counts
from tests.reports.sweep_facts import BASELINE, cell_facts

ACKED = Counts(sent=1_000, acked=1_000, acked_bytes=4_096_000)


def test_megabytes_and_their_cpu_are_those_of_the_records() -> None:
    facts = replace(cell_facts(BASELINE, p99_us=9_000, throughput=2_000, cpu_us=50), counts=ACKED)
    found = volume_of(facts, capacity_records_per_s=8_000)
    assert found.mb_per_s == pytest.approx(2_000 * 4_096 / 1e6)
    cpu = broker_cpu(facts)
    assert cpu is not None
    assert found.broker_cpu_ms_per_mb == pytest.approx(cpu.lasting_us / 1000 / (4_096 / 1e6), rel=1e-3)
    assert found.capacity_share == 0.25


def test_what_the_run_does_not_show_has_no_figure() -> None:
    facts = replace(cell_facts(BASELINE, p99_us=9_000, kind="ceiling"), counts=ACKED)
    assert volume_of(facts, capacity_records_per_s=8_000).capacity_share is None, "a ceiling is asked for nothing"
    assert volume_of(facts).capacity_share is None
    silent = replace(cell_facts({**BASELINE, "acks": "0"}, p99_us=9_000), counts=Counts(sent=10))
    assert volume_of(silent).mb_per_s == pytest.approx(silent.throughput_records_per_s * 1_024 / 1e6, rel=1e-3), (
        "with acks=0 only a fixed size is known"
    )
