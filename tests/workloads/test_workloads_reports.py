"""States and reports of load processes: what is added up, and that they survive their way to another process."""

from __future__ import annotations

import json

import numpy as np

from runlog.records.load import PayloadFigures, ProducerEnd, Progress
from workloads.histogram import LogHistogram
from workloads.reports import LoadReport, LoadState, merge_reports, merge_states, progress_of
from workloads.stages import Stages

WINDOW_US = (0, 1_000_000)


def histogram(*values_us: int) -> LogHistogram:
    made = LogHistogram()
    made.add(np.array(values_us, dtype=np.int64))
    return made


def state(number: int, **changes: object) -> LoadState:
    return merge_states(()).model_copy(
        update={
            "producing": 1, "acked": 10 * number, "received_by_reader": {"0": 4 * number, "1": number},
            "recent": {"latency": histogram(1_000 * number).told()}, "last_received_us": number,
            "errors": (f"error {number}",), "client": {str(number): {"rate": 1.5}}, **changes,
        }
    )  # fmt: skip


def report(number: int) -> LoadReport:
    nothing = LogHistogram().told()
    return LoadReport(
        producers=(ProducerEnd(producer=number, incarnation=0, high_seq=9),), lag=histogram(number).told(),
        stages=Stages().told(), hub=nothing, cpu_share=number / 10, gc_ms=1.0, gc_ms_max=float(number),
        thread_cpu_share=0.1, cores=(number,), late_sends=number, backpressure_sends=0, unsent=1, unsent_for_space=0,
        foreign_records=0, redelivery={"a": {"records": number}}, payload_zlib_ratio=1.0,
        payload=PayloadFigures(bodies=3),
        client_effective={"acks": "all"} if number == 2 else {}, client={str(number): {"x": 1.0}},
    )  # fmt: skip


def test_states_add_up_and_of_none_nothing_was_done() -> None:
    whole = merge_states([state(1), state(2)])
    assert (whole.producing, whole.acked, whole.last_received_us) == (2, 30, 2)
    assert whole.received_by_reader == {"0": 12, "1": 3}
    assert whole.errors == ("error 1", "error 2")
    assert whole.client.keys() == {"1", "2"}
    assert merge_states([merge_states(()), whole]) == whole
    assert progress_of(merge_states(()), 0) == Progress(backlog=None)


def test_the_backlog_is_that_of_the_slowest_reader_and_the_latency_that_of_all_processes() -> None:
    progress = progress_of(merge_states([state(1), state(2)]), 2)
    assert progress.backlog == 30 - 3
    assert progress.latency_us_p50 is not None
    assert 1_000 <= progress.latency_us_p50 < 1_020
    assert progress.latency_us_p99 == 2_000


def test_reports_add_up_to_the_account_of_the_cell() -> None:
    done = merge_reports([report(2), report(1)], t_us=5)
    assert [end.producer for end in done.producers] == [1, 2]
    assert done.effective.client == {"acks": "all"}
    health = done.health
    assert (health.cpu_share, health.cpu_share_by_process, health.cores_by_process) == (0.2, (0.2, 0.1), ((2,), (1,)))
    assert (health.late_sends, health.unsent, health.gc_ms, health.gc_ms_max) == (3, 2, 2.0, 2.0)
    assert health.redeliveries["a"].records == 3
    assert health.payload == PayloadFigures(bodies=3)


def test_what_another_process_told_is_what_it_had() -> None:
    for told in (state(1), report(2)):
        assert type(told).model_validate(json.loads(json.dumps(told.model_dump(mode="json")))) == told
