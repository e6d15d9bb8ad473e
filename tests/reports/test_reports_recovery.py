"""Figures of recovery from hand-made rates and events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from reports.evidence.recovery import recovery
from reports.figures.recovery_words import recovery_sentences
from reports.read.model import Recovery
from tests.reports.cells import make_cell

SLOT_US = 100_000
FAULT_US = 2_000_000
DUE = 100  # records a bucket


def rates(*parts: tuple[int, float]) -> pd.DataFrame:
    """(acknowledgements a bucket, seconds) one after the other, from 0. In each bucket DUE records are due."""
    acked = [rate for rate, seconds in parts for _ in range(round(seconds * 1e6 / SLOT_US))]
    return pd.DataFrame({"t_us": [number * SLOT_US for number in range(len(acked))], "acked": acked, "intended": DUE})


def figures(
    slots: pd.DataFrame, *events: dict[str, Any], faults: bool = True, kinds: Mapping[str, int] | None = None
) -> Recovery | None:
    """`kinds`: when each fault began."""
    end_us = len(slots) * SLOT_US
    lines = tuple(
        {"t_us": t_us, "id": kind, "kind": kind, "target": "leader", "phase": "applied"}
        for kind, t_us in (kinds or {"kill": FAULT_US}).items()
    )
    document = {"topic": {"name": "t"}, "outcome": {"measure_start_us": 0, "measure_end_us": end_us}}
    cell = make_cell(cell_id="c", document=document, events=events, faults=lines if faults else ())
    return recovery(cell, slots, SLOT_US)


def leader(t_us: int, broker: int, epoch: int) -> dict[str, Any]:
    return {
        "t_us": t_us,
        "kind": "became_leader",
        "broker": broker,
        "leader_epoch": epoch,
        "partition": 0,
        "topic": "t",
    }


def test_an_outage_with_an_election() -> None:
    slots = rates((100, 2), (0, 3), (300, 1), (100, 4))
    fenced = {"t_us": 4_100_000, "kind": "broker_fenced", "broker": 1}
    found = figures(slots, leader(500_000, 1, 4), fenced, leader(4_400_000, 2, 5))
    assert found is not None
    assert (found.detect_us, found.elect_us) == (2_100_000, 2_400_000)
    assert found.first_ack_us == 3_000_000  # the bucket from 5 s on is the first with acknowledgements
    assert found.recover_us is not None
    assert 3_000_000 <= found.recover_us <= 4_100_000
    assert found.service_level_records_per_s == 900.0
    # 3 s at 1,000 records a second pile up to 3,000: 4,500 record-seconds, and less while they are worked off.
    assert found.area_record_seconds is not None
    assert 4_500 <= found.area_record_seconds <= 7_000


def test_what_a_cluster_catches_up_before_the_fault_is_not_expected_of_it_afterwards() -> None:
    """The host had stalled before. The mean over the seconds before the fault was above what was sent at all: there was
    no recovery, and the area of violation grew to the end of the load."""
    slots = rates((130, 2), (0, 1), (200, 1), (100, 26))
    caught_up = figures(slots)
    assert caught_up is not None
    assert caught_up.service_level_records_per_s == 900.0
    assert caught_up.recover_us is not None
    assert caught_up.area_record_seconds is not None
    assert caught_up.area_record_seconds <= 1_500
    uncounted = figures(slots.assign(intended=0))
    assert uncounted is not None
    assert uncounted.recover_us is None


def test_an_election_counts_from_the_death_of_the_leader_and_not_from_an_earlier_fault() -> None:
    """Links were cut at 2 s and the leader was killed at 3 s: a reader took 2.4 s for the time of a fail-over."""
    slots = rates((100, 3), (0, 2), (300, 1), (100, 4))
    events = (leader(500_000, 1, 4), leader(4_400_000, 2, 5))
    found = figures(slots, *events, kinds={"link_cut": FAULT_US, "kill": 3_000_000})
    assert found is not None
    assert (found.fault, found.process_fault, found.process_fault_us) == (
        "link_cut on leader",
        "kill on leader",
        3_000_000,
    )
    assert (found.detect_us, found.elect_us) == (1_400_000, 1_400_000)
    assert found.first_ack_us == 3_000_000, "the silence counts from the first fault, which may have begun it"


def told(slots: pd.DataFrame, *events: dict[str, Any], **more: Any) -> str:
    cell = make_cell(cell_id="c", document={"outcome": {"started_us": 0}})
    return " ".join(recovery_sentences(cell, figures(slots, *events, **more)))


def test_each_time_says_from_which_event_it_counts() -> None:
    events = (leader(500_000, 1, 4), leader(4_400_000, 2, 5))
    text = told(rates((100, 3), (0, 2), (300, 1), (100, 4)), *events, kinds={"link_cut": FAULT_US, "kill": 3_000_000})
    assert "After kill on leader at second 3.00: detected after 1.40 s, new leader after 1.40 s." in text
    assert "After link_cut on leader at second 2.00: acknowledgements paused, and the first came after 3.00 s;" in text
    assert "900 acknowledged records/s. That is a threshold, 90%" in text


def test_what_did_not_happen_is_a_sentence() -> None:
    calm = told(rates((100, 6)))
    assert "the cluster saw nothing that it had to act on" in calm
    assert "acknowledgements never paused; the rate stayed at the service level." in calm
    for_good = told(rates((100, 2), (0, 4)))
    assert "none came again before the load ended; service was not back when the load ended, area" in for_good


def test_an_election_before_the_kill_is_that_of_the_first_fault() -> None:
    events = (leader(500_000, 1, 4), leader(2_400_000, 2, 5))
    found = figures(rates((100, 2), (0, 3), (100, 4)), *events, kinds={"link_cut": FAULT_US, "kill": 3_000_000})
    assert found is not None
    assert (found.process_fault, found.elect_us) == ("", 400_000)


def test_an_outage_without_an_election_ends_with_the_silence() -> None:
    found = figures(rates((100, 2), (0, 1.5), (100, 4)))
    assert found is not None
    assert (found.detect_us, found.elect_us) == (None, None)
    assert found.first_ack_us == 1_500_000


def test_a_fault_that_nobody_feels_has_no_outage() -> None:
    found = figures(rates((100, 6)))
    assert found is not None
    assert (found.first_ack_us, found.recover_us, found.area_record_seconds) == (None, None, 0.0)


def test_service_that_never_comes_back_has_no_time_of_recovery() -> None:
    found = figures(rates((100, 2), (0, 1), (50, 4)))
    assert found is not None
    assert found.recover_us is None
    assert found.first_ack_us == 1_000_000


def test_an_isr_that_shrinks_is_detection_too() -> None:
    events = [
        {"t_us": t_us, "kind": "isr_changed", "partition": 0, "topic": "t", "isr": isr, "broker": 1}
        for t_us, isr in ((100, [1, 2, 3]), (3_500_000, [1, 2]))
    ]
    found = figures(rates((100, 6)), *events)
    assert found is not None
    assert found.detect_us == 1_500_000


def test_without_a_fault_or_a_rate_before_it_there_is_nothing_to_say() -> None:
    assert figures(rates((100, 6)), faults=False) is None
    assert figures(rates((0, 6))) is None


def with_load_host(slots: pd.DataFrame, error_us: float) -> Recovery:
    host = {
        "name": "far", "state": "done", "producers": [0],
        "clock": {"offset_us": 0.0, "error_us": error_us, "samples": 9, "round_trip_us_min": 1.0},
    }  # fmt: skip
    end_us = len(slots) * SLOT_US
    document = {
        "topic": {"name": "t"},
        "outcome": {"measure_start_us": 0, "measure_end_us": end_us, "load_hosts": [host]},
    }
    fault = {"t_us": FAULT_US, "id": "kill", "kind": "kill", "target": "leader", "phase": "applied"}
    found = recovery(make_cell(cell_id="c", document=document, faults=(fault,)), slots, SLOT_US)
    assert found is not None
    return found


def test_acknowledgements_on_a_load_host_have_its_clocks_bound() -> None:
    slots = rates((100, 2), (0, 3), (100, 5))
    found = with_load_host(slots, 1_500.0)
    assert (found.clock_error_us, found.first_ack_us, found.beyond_clocks) == (1_500.0, 3_000_000, frozenset())
    cell = make_cell(cell_id="c")
    told = " ".join(recovery_sentences(cell, found))
    assert "the first came after 3.00 s" in told
    assert "can be wrong by up to 1.500 ms" in told
    assert "not shown" not in told


def test_a_time_that_the_clocks_do_not_allow_is_not_shown() -> None:
    found = with_load_host(rates((100, 2), (0, 3), (100, 5)), 4_000_000.0)
    assert (found.first_ack_us, found.recover_us) == (None, None)
    assert found.beyond_clocks == {"first_ack_us", "recover_us"}
    told = " ".join(recovery_sentences(make_cell(cell_id="c"), found))
    assert "acknowledgements paused; the rate fell below the service level" in told
    assert "One that is not above that is not shown." in told
    assert "never" not in told
    assert "none came again" not in told


def test_with_the_load_here_there_is_no_bound() -> None:
    found = figures(rates((100, 2), (0, 3), (100, 5)))
    assert found is not None
    assert (found.clock_error_us, found.beyond_clocks) == (0.0, frozenset())
    assert "wrong by" not in " ".join(recovery_sentences(make_cell(cell_id="c"), found))
