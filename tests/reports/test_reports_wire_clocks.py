"""Requests that proxies on several hosts saw: predictions use their times only as far as the clocks are known."""

from __future__ import annotations

from typing import Any

from reports.evidence.predict import predict
from reports.evidence.topic_events import NEVER_US
from reports.evidence.wire_clocks import has_host_clocks, unclear_order
from tests.reports.cells import make_cell
from tests.reports.test_reports_predict_answers import TRUNCATED, line

ERROR_US = 100.0


def seen_by(host: str, broker: int, base: int, t_us: int, first_seq: int, **values: Any) -> dict[str, Any]:
    return line(broker, base, t_us, first_seq, host=host, clock_error_us=ERROR_US, **values)


def cell(*wire: dict[str, Any], lost: str = "none", reordered: str = "none", events: Any = (TRUNCATED,)) -> Any:
    document = {
        "topic": {"name": "t"}, "properties": {}, "expect": {"lost": lost, "reordered": reordered},
    }  # fmt: skip
    return make_cell(document=document, events=events, wire=wire)


def test_an_answer_counts_from_its_earliest_time_until_the_earliest_of_the_next_leader() -> None:
    subject = cell(seen_by("a", 1, 100, 1_000, 10), seen_by("b", 2, 100, 2_000, 50))
    (found,) = (each for each in predict(subject).intervals if each.kind == "lost")
    assert (found.from_offset, found.end_offset) == (100, 110)
    assert (found.after_us, found.before_us) == (1_000 - 100 - 1, 2_000 - 100)


def test_times_of_proxies_of_the_harness_are_exact_as_before() -> None:
    subject = cell(line(1, 100, 1_000, 10), line(2, 200, 1_050, 50), lost="predicted")
    (found,) = (each for each in predict(subject).intervals if each.kind == "lost")
    assert (found.after_us, found.before_us) == (999, NEVER_US)
    assert not has_host_clocks(subject)
    assert unclear_order(subject) == []


def test_two_leaders_that_answered_within_both_bounds_leave_the_loss_open() -> None:
    far = (seen_by("a", 1, 100, 1_000, 10), seen_by("b", 2, 100, 1_201, 50))
    near = (seen_by("a", 1, 100, 1_000, 10), seen_by("b", 2, 100, 1_200, 50))
    assert unclear_order(cell(*far, lost="predicted")) == []
    (told,) = unclear_order(cell(*near, lost="predicted"))
    assert "which of two leaders answered first for the same offsets is not known 1 time(s)" in told
    assert unclear_order(cell(*near)) == [], "no prediction of loss is asked for"
    assert unclear_order(cell(*near, lost="exact", events=())) == [], "no leader was replaced while it lived"
    dumped = {**TRUNCATED, "source": "log_dump"}  # it was replaced while it lived, and died later
    (told,) = unclear_order(cell(*near, lost="predicted", events=(dumped,)))
    assert "which of two leaders" in told
    elsewhere = (near[0], seen_by("b", 2, 110, 1_010, 50))
    assert unclear_order(cell(*elsewhere, lost="predicted")) == [], "other offsets"
    same_host = (near[0], seen_by("a", 2, 100, 1_001, 50))
    assert unclear_order(cell(*same_host, lost="predicted")) == [], "one clock keeps its order"


def test_first_requests_of_a_producer_on_two_hosts_within_both_bounds_leave_the_order_open() -> None:
    near = (seen_by("a", 1, 100, 1_000, 10), seen_by("b", 2, 110, 1_200, 20))
    (told,) = unclear_order(cell(*near, reordered="exact", events=()))
    assert "which of two requests came first is not known 1 time(s)" in told
    assert unclear_order(cell(*near, events=())) == []
    far = (near[0], seen_by("b", 2, 110, 1_201, 20))
    assert unclear_order(cell(*far, reordered="exact", events=())) == []
    retry = (near[0], seen_by("b", 2, 100, 1_001, 10))
    assert unclear_order(cell(*retry, reordered="exact", events=())) == [], "only first attempts have an order"
    other_producer = seen_by("b", 2, 110, 1_001, 20, identities=[[1, 0, 20, 29]])
    assert unclear_order(cell(near[0], other_producer, reordered="exact", events=())) == []


def test_a_removed_batch_that_was_answered_within_the_bound_has_no_order() -> None:
    """Arrival and answer are of one clock. The bound of that clock once made a batch look as if it had come after its
    own answer, so that it was taken for one that stayed."""
    quick = {"mono_ns": 990_000, "answered_ns": 1_000_000}
    lost = seen_by("a", 1, 110, 990, 10, **quick)
    # The same producer goes on with the next leader, at lower offsets.
    later = seen_by("b", 2, 100, 50_000, 20)
    subject = cell(lost, later, lost="predicted", reordered="exact")
    kinds = [each.kind for each in predict(subject).intervals]
    assert kinds == ["lost"]
