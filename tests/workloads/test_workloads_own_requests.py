"""The requests of somebody's locustfile: every one counts once, in its second and in all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlog.records.stats import RequestsInAll, RequestsSample
from workloads.own_requests import ERRORS_MAX, NAME_CHARACTERS_MAX, NAMES_MAX, OTHERS, SECOND_US, Requests

Line = RequestsSample | RequestsInAll


def counted(told: list[tuple[int, str, str, float, object]]) -> list[Line]:
    """`told`: (time in microseconds, type, name, response time in ms, exception), in order of time."""
    lines: list[Line] = []
    now = [told[0][0] if told else 0]
    requests = Requests(lines.append, lambda: now[0])
    for at_us, kind, name, took_ms, error in told:
        now[0] = at_us
        requests.on_request(request_type=kind, name=name, response_time=took_ms, exception=error, response_length=1)
    requests.finish()
    return lines


def test_each_second_and_the_whole_are_told_by_name() -> None:
    lines = counted([
        (100, "send", "orders", 10.0, None),
        (SECOND_US - 1, "send", "orders", 20.0, ValueError("full")),
        (SECOND_US, "send", "orders", 30.0, None),
        (SECOND_US + 5, "poll", "orders", 1.0, None),
    ])  # fmt: skip
    seconds = [line for line in lines if isinstance(line, RequestsSample)]
    assert [(one.t_us, one.source, one.request, one.requests, one.failures) for one in seconds] == [
        (0, "send", "orders", 2, 1),
        (SECOND_US, "poll", "orders", 1, 0),
        (SECOND_US, "send", "orders", 1, 0),
    ]
    assert seconds[0].max_us == 20_000
    assert 10_000 <= seconds[0].p50_us <= 10_200
    whole = [line for line in lines if isinstance(line, RequestsInAll)]
    assert [(one.source, one.requests, one.failures) for one in whole] == [("poll", 1, 0), ("send", 3, 1)]
    assert whole[1].errors == {"ValueError: full": 1}


def test_a_file_that_puts_an_id_into_each_name_does_not_fill_the_memory() -> None:
    many = [(1, "send", f"order {number}", 1.0, f"refused {number}") for number in range(NAMES_MAX + 50)]
    lines = counted(many)
    whole = {one.request: one for one in lines if isinstance(one, RequestsInAll)}
    assert len(whole) == NAMES_MAX + 1
    assert whole[OTHERS].requests == whole[OTHERS].failures == 50
    assert len(whole[OTHERS].errors) == ERRORS_MAX


def test_a_request_without_a_time_counts() -> None:
    (second, whole) = counted([(1, "send", "x", None, "no answer")])  # type: ignore[list-item]
    assert (second.requests, second.failures, second.max_us) == (1, 1, 0)
    assert whole.requests == 1


@pytest.mark.parametrize("took_ms", [float("nan"), float("inf"), -5.0, 1e300])
def test_an_absurd_time_counts_as_a_request_without_one(took_ms: float) -> None:
    (second, whole) = counted([(1, "send", "x", took_ms, None)])
    assert (second.requests, second.max_us, whole.requests) == (1, 0, 1)


def test_types_and_long_names_have_a_bound_too() -> None:
    lines = counted([(1, f"type {number}", "n" * 10_000, 1.0, None) for number in range(NAMES_MAX + 50)])
    whole = [one for one in lines if isinstance(one, RequestsInAll)]
    assert len(whole) == NAMES_MAX + 1
    assert sum(one.requests for one in whole) == NAMES_MAX + 50
    assert max(len(one.request) for one in whole) == NAME_CHARACTERS_MAX


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5 * SECOND_US), st.sampled_from(["a", "b"]), st.floats(0, 1e6), st.sampled_from([None, "no"])
        ),
        max_size=50,
    )
)
def test_seconds_add_up_to_the_whole(found: list[tuple[int, str, float, str | None]]) -> None:
    lines = counted(
        [(at_us, "send", name, took, error) for at_us, name, took, error in sorted(found, key=lambda one: one[0])]
    )
    for name in ("a", "b"):
        seconds = [one for one in lines if isinstance(one, RequestsSample) and one.request == name]
        whole = [one for one in lines if isinstance(one, RequestsInAll) and one.request == name]
        assert sum(one.requests for one in seconds) == sum(one.requests for one in whole)
        assert sum(one.failures for one in seconds) == sum(one.failures for one in whole)
        assert [one.t_us for one in seconds] == sorted(
            {at_us // SECOND_US * SECOND_US for at_us, own, *_ in found if own == name}
        )
        if whole:
            assert max(one.max_us for one in seconds) == whole[0].max_us
