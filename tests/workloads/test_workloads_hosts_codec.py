"""What the link carries for each message, in both directions, and what is refused with which words."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.histogram import LogHistogram
from workloads.hosts import codec, fault_wire, wire
from workloads.hosts.codec import WireError, decode, encode
from workloads.hosts.wire import Message
from workloads.model import Workload
from workloads.reports import LoadReport, LoadState

NONE = LogHistogram().told().model_dump(mode="json")
TABLES = (codec.LOAD_MASTER_SAYS, codec.LOAD_HOST_SAYS, codec.FAULT_MASTER_SAYS, codec.FAULT_HOST_SAYS)
CELL = {"run_id": "run-1", "cell_id": "c1"}
STATE: dict[str, Any] = {
    "ready": 2, "producing": 1, "consuming": 1, "sent": 9, "acked": 8, "failed": 0, "unknown": 0, "received": 7,
    "received_by_reader": {"0": 7}, "refusals": {"6": 1},
    "recent": {"latency": {"buckets": [3], "counts": [1], "max_us": 1, "sum_us": 1}},
    "last_received_us": -1, "errors": ["x"], "client": {"0": {"rate": 1.5}},
}  # fmt: skip
PAYLOAD = {"bodies": 3, "mean_size_bytes": 9.5, "corpus": None, "corpus_read_share": None}
REPORT: dict[str, Any] = {
    "producers": [{"producer": 0, "incarnation": 0, "high_seq": 9}], "lag": NONE,
    "stages": {"histograms": {"intended_to_ack": NONE}, "negative": {"intended_to_ack": 0}, "censored": {}},
    "hub": NONE, "cpu_share": 0.5, "gc_ms": 0.0, "gc_ms_max": 0.0, "thread_cpu_share": 0.1, "cores": [0, 1],
    "late_sends": 0, "backpressure_sends": 0, "unsent": 0, "unsent_for_space": 0, "foreign_records": 0,
    "redelivery": {"a": {"seen": 1}}, "payload_zlib_ratio": 1.0, "payload": PAYLOAD,
    "client_effective": {"acks": "all"}, "client": {"0": {"x": 1.5}},
}  # fmt: skip
# As they were before each had a type: two versions of the harness never speak to each other, but a form that changes
# without being meant to is a mistake.
ON_THE_LINK: list[tuple[Message, str, dict[str, Any]]] = [
    (wire.Welcome(run_id="run-1", version="1"), "host_welcome", {"run_id": "run-1", "version": "1"}),
    (wire.Refused(reason="no"), "host_refused", {"reason": "no"}),
    (wire.ClockQuestion(number=7), "host_clock", {"number": 7}),
    (
        wire.ClockAnswer(number=7, received_ns=1, sent_ns=2),
        "host_clock", {"number": 7, "received_ns": 1, "sent_ns": 2},
    ),
    (
        wire.BeginAt(start_ns=1, measure_ns=2, end_ns=3, drain_end_ns=4),
        "host_begin", {"start_ns": 1, "measure_ns": 2, "end_ns": 3, "drain_end_ns": 4},
    ),
    (wire.StopSending(drain_deadline_ns=5), "host_stop_sending", {"drain_deadline_ns": 5}),
    (wire.StopReceiving(), "host_stop_receiving", {}),
    (wire.AskReport(), "host_ask_report", {}),
    (wire.End(), "host_end", {}),
    (wire.AskFiles(**CELL), "host_files", CELL),
    (wire.Forget(**CELL), "host_forget", CELL),
    (
        wire.AskChunk(**CELL, name="send-p0i0-000000.seg", offset=3),
        "host_chunk", {**CELL, "name": "send-p0i0-000000.seg", "offset": 3},
    ),
    (
        wire.Chunk(**CELL, name="send-p0i0-000000.seg", offset=3, data=b"\xff\x00", is_last=True, sha256="ab"),
        "host_chunk",
        {**CELL, "name": "send-p0i0-000000.seg", "offset": 3, "data": b"\xff\x00", "is_last": True, "sha256": "ab"},
    ),
    (
        wire.StateTold(cell_id="c1", done=("begin",), state=LoadState.model_validate(STATE)),
        "host_state", {"cell_id": "c1", "done": ["begin"], "state": STATE},
    ),
    (
        wire.ReportTold(cell_id="c1", reports=(LoadReport.model_validate(REPORT),)),
        "host_report", {"cell_id": "c1", "reports": [REPORT]},
    ),
    (wire.Problem(cell_id="c1", message="x"), "host_problem", {"cell_id": "c1", "message": "x"}),
    (
        fault_wire.Answer(number=1, run_id="run-1", is_done=True, epochs={3: ((1, 0, 5),)}),
        "fault_answer",
        {
            "number": 1, "run_id": "run-1", "is_done": True, "is_refused": False, "is_unknown": False, "problem": "",
            "from_ns": 0, "to_ns": 0, "running": None, "proxy": None, "probe": None, "requests": None,
            "processes": [], "epochs": {3: [[1, 0, 5]]},
        },
    ),
    (
        fault_wire.Ask(
            number=1, run_id="run-1", action="toxic_add", proxy="to-1", begin_until_ns=5,
            toxic=fault_wire.Toxic(name="t", type="latency", attributes={"latency": 5}),
        ),
        "fault_ask",
        {
            "number": 1, "run_id": "run-1", "action": "toxic_add", "broker": None, "proxy": "to-1", "topic": "",
            "partitions": 0, "begin_until_ns": 5, "probe": None, "topics": [], "offset": 0,
            "toxic": {
                "name": "t", "type": "latency", "stream": "downstream", "attributes": {"latency": 5}, "counters": {},
            },
        },
    ),
]  # fmt: skip


def unpacked(data: object) -> Any:
    """As the link gives it to the peer."""
    return msgpack.loads(msgpack.dumps(data), strict_map_key=False)


@pytest.mark.parametrize(("message", "kind", "data"), ON_THE_LINK, ids=lambda each: type(each).__name__)
def test_a_message_is_on_the_link_what_it_always_was_and_comes_back_equal(
    message: Message, kind: str, data: dict[str, Any]
) -> None:
    found_kind, found = encode(message)
    assert (found_kind, unpacked(found)) == (kind, data)
    (table,) = [each for each in TABLES if each.get(kind) is type(message)][:1]
    assert decode(kind, unpacked(found), table) == message


def test_a_plan_comes_back_equal_with_its_workload() -> None:
    plan = wire.SharePlan(
        **CELL, client="reference", bootstrap_servers="10.0.0.1:9092", topic="orders", partitions=3,
        properties={"acks": "all"}, workload=Workload(rate_per_s=100, producers=3), seed=1,
        share=wire.ShareOfHost(producers=(0, 2)), t0_monotonic_ns=5, harness_t0_ns=6,
    )  # fmt: skip
    for message in (plan, wire.Certify(number=1, plan=plan)):
        kind, data = encode(message)
        assert decode(kind, unpacked(data), codec.LOAD_MASTER_SAYS) == message


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        ("host_state", 5, "valid dictionary"),
        ("host_state", {"cell_id": "c1", "done": [], "state": 5}, "state: "),
        ("host_state", {"cell_id": "c1", "done": [], "state": {**STATE, "acked": "many"}}, "state.acked: "),
        ("host_state", {"cell_id": "c1", "done": [], "state": {**STATE, "more": 1}}, "state.more: "),
        (
            "host_state",
            {"cell_id": "c1", "done": [], "state": {**STATE, "recent": {"lag": {**NONE, "buckets": [1]}}}},
            "1 buckets have 0 counts",
        ),
        ("host_report", {"cell_id": "c1", "reports": [{}]}, "reports.0.producers: "),
        (
            "host_report",
            {"cell_id": "c1", "reports": [{**REPORT, "lag": {**NONE, "buckets": [2_048], "counts": [1]}}]},
            "reports.0.lag.buckets.0: ",
        ),
        ("host_files", {**CELL, "files": [{"name": "../x", "bytes": 1, "is_closed": True}]}, "files.0.name: "),
        ("host_plan", {}, "'host_plan' is no kind of message here, there are host_hello, "),
        ("spawn", {}, "'spawn' is no kind of message here"),
    ],
)
def test_nonsense_of_a_load_host_is_refused_by_the_field_that_is_wrong(kind: str, data: object, words: str) -> None:
    with pytest.raises(WireError) as caught:
        decode(kind, data, codec.LOAD_HOST_SAYS)
    assert words in str(caught.value)
    assert len(str(caught.value)) <= wire.PROBLEM_CHARACTERS_MAX


@pytest.mark.thorough
@given(
    st.recursive(st.none() | st.integers() | st.text() | st.binary(), lambda part: st.dictionaries(st.text(), part)),
    st.sampled_from([(table, kind) for table in TABLES for kind in table]),
)
def test_nothing_but_a_message_or_a_refusal_comes_of_any_data(data: object, where: tuple[codec.Table, str]) -> None:
    table, kind = where
    try:
        found = decode(kind, data, table)
    except WireError:
        return
    assert isinstance(found, table[kind])
