"""A load in transactions: each record's outcome is that of its transaction, whatever the client does."""

from __future__ import annotations

import itertools
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from harness.clusters.base import Address
from harness.clusters.kafka.jars import cache_directory, ensure_jars, java_command
from harness.clusters.requests.log_reader import TopicLogReader
from harness.clusters.requests.probe import BrokerProbe
from harness.run.evidence.final_read import read_log
from runlog.files.clock import RunClock
from runlog.files.paths import events_path
from runlog.streams.compact import compact_cell
from runlog.streams.parquet import read_stream
from runlog.streams.schema import RECV, SEND, SendStatus
from tests.json_lines import read_jsonl
from tests.workloads.load_process import PARTITIONS, Load
from tests.workloads.reference_broker import ReferenceBroker
from tests.workloads.test_workloads_producer import FakeClock
from workloads import transactions
from workloads.clients import (
    BUILTIN,
    check_transactions,
    client_names,
    clients_with_transactions,
    make_producer,
    make_transactional_producer,
)
from workloads.clients.java import build
from workloads.clients.process import shipped
from workloads.clients.process.build import RECIPES, built, missing_tool
from workloads.clients.process.build import runtime_of as runtime_of_program
from workloads.clients.protocol import (
    ClientError,
    ClientSetup,
    OutcomeSink,
    PropertyError,
    TransactionAborted,
    TransactionUnknown,
)
from workloads.model import Workload
from workloads.transactions import TransactionalProducer

ACKED, FAILED, UNKNOWN, ABORTED = SendStatus.ACKED, SendStatus.FAILED, SendStatus.UNKNOWN, SendStatus.ABORTED
INTERVAL_MS = 100


class FakeClient:
    """Acknowledges each record at once, at an offset that is its seq, and does at the ends what it was told to do."""

    def __init__(self, clock: FakeClock, sink: OutcomeSink, ends: Iterator[Exception | None], log: list[str]) -> None:
        self._clock, self.sink, self._ends, self._log = clock, sink, ends, log
        self.refused: set[int] = set()
        self.silent: set[int] = set()
        self.doubtful: set[int] = set()

    def connect(self, timeout_s: float) -> None:
        self._log.append("connect")

    def begin(self) -> None:
        self._log.append("begin")

    def send(self, topic: str, value: bytes, key: bytes | None, seq: int) -> bool:
        if seq in self.refused:
            self.sink.one(seq, FAILED, 10, -1, -1)
        elif seq in self.doubtful:
            self.sink.one(seq, UNKNOWN, 7, -1, -1)
        elif seq not in self.silent:
            self.sink.one(seq, ACKED, 0, 0, seq)
        return True

    def poll(self, timeout_s: float) -> None:
        self._clock.now_ns += round(timeout_s * 1e9)

    def commit(self, timeout_s: float) -> None:
        self._log.append("commit")
        self._end()

    def abort(self, timeout_s: float) -> None:
        self._log.append("abort")
        self._end()

    def _end(self) -> None:
        end = next(self._ends)
        if end is not None:
            raise end

    def close(self, timeout_s: float) -> None:
        self._log.append("close")

    def metrics(self) -> dict[str, float]:
        return {}

    def effective(self) -> dict[str, str]:
        return {}


class Rig:
    """A TransactionalProducer with clients that are told how each of their transactions ends; then all end well."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *ends: Exception | None, **settings: Any) -> None:
        self.clock = FakeClock()
        monkeypatch.setattr(transactions, "time", self.clock)
        self.steps: list[str] = []
        self.outcomes: list[np.void] = []
        self.clients: list[FakeClient] = []
        told = itertools.chain(ends, itertools.repeat(None))

        def make(sink: OutcomeSink) -> FakeClient:
            self.clients.append(FakeClient(self.clock, sink, told, self.steps))
            return self.clients[-1]

        self.producer = TransactionalProducer(
            make,
            self,
            **{"commit_interval_ms": INTERVAL_MS, "records_max": 0, "abort_share": 0.0, "producer": 0, **settings},
        )

    one = many = None  # Outcomes come with the end of a transaction, and so as rows.

    def timed(self, outcomes: Any) -> None:
        self.outcomes += list(outcomes)

    def send(self, *seqs: int) -> None:
        for seq in seqs:
            assert self.producer.send("t", b"v", None, seq)

    def until_due(self) -> None:
        self.producer.poll(INTERVAL_MS / 1_000)

    def rows(self, *names: str) -> list[tuple[int, ...]]:
        return [tuple(int(row[name]) for name in names) for row in self.outcomes]


def test_records_are_told_when_their_transaction_is_committed_and_all_at_one_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(monkeypatch)
    rig.send(0, 1, 2)
    rig.producer.poll(INTERVAL_MS / 2_000)
    assert rig.outcomes == []
    rig.until_due()
    assert rig.rows("seq", "status", "offset") == [(0, ACKED, 0), (1, ACKED, 1), (2, ACKED, 2)]
    assert {int(row["acked_ns"]) for row in rig.outcomes} == {rig.clock.now_ns}
    rig.send(3)
    rig.until_due()
    assert rig.steps == ["begin", "commit", "begin", "commit"]
    assert len({int(row["acked_ns"]) for row in rig.outcomes}) == 2


def test_two_transactions_never_end_at_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The analysis takes the time of the end for the name of a transaction. This clock stands still."""
    rig = Rig(monkeypatch, records_max=2)
    rig.send(0, 1, 2, 3)
    times = [row["acked_ns"] // 1_000 for row in rig.outcomes]
    assert times[0] == times[1] < times[2] == times[3]


def test_a_poll_does_not_wait_beyond_the_commit_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.send(0)
    began_ns = rig.clock.now_ns
    rig.producer.poll(10.0)
    assert rig.clock.now_ns - began_ns == INTERVAL_MS * 1_000_000


def test_the_planned_share_is_aborted_and_evenly_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, records_max=1, abort_share=0.25)
    rig.send(*range(40))
    aborted = [seq for seq, status, error in rig.rows("seq", "status", "error") if (status, error) == (ABORTED, 0)]
    assert len(aborted) == 10
    assert {later - earlier for earlier, later in itertools.pairwise(aborted)} == {4}
    assert rig.producer.metrics()["transactions aborted as planned"] == 10


def test_an_unknown_commit_makes_its_records_unknown_and_a_new_client_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, TransactionUnknown("no answer", 7))
    rig.send(0, 1)
    rig.until_due()
    assert rig.rows("seq", "status", "error") == [(0, UNKNOWN, 7), (1, UNKNOWN, 7)]
    rig.send(2)
    rig.clients[0].sink.one(2, ACKED, 0, 0, 99)  # what the old client still says is of no record of the new one
    rig.until_due()
    assert rig.rows("seq", "status", "offset")[2:] == [(2, ACKED, 2)]
    assert rig.steps == ["begin", "commit", "close", "connect", "begin", "commit"]


def test_nothing_is_unknown_of_a_transaction_that_nobody_asked_to_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, TransactionUnknown("fenced", 90), abort_share=0.9, producer=1)  # it begins with an abort
    rig.send(0)
    rig.until_due()
    assert rig.rows("status", "error") == [(ABORTED, 90)]
    assert "connect" in rig.steps  # it is of no more use all the same


def test_a_commit_that_was_refused_aborts_and_a_refused_record_stays_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, TransactionAborted("too large", 10))
    rig.clients[0].refused = {1}
    rig.send(0, 1, 2)
    rig.until_due()
    assert rig.rows("status", "error") == [(ABORTED, 10), (FAILED, 10), (ABORTED, 10)]
    assert len(rig.clients) == 1


def test_a_committed_record_without_an_answer_of_its_own_is_acknowledged_without_an_offset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(monkeypatch)
    rig.clients[0].silent = {1}
    rig.send(0, 1)
    assert rig.producer.answered == 1
    rig.until_due()
    assert rig.rows("status", "offset", "partition") == [(ACKED, 0, 0), (ACKED, -1, -1)]


def test_a_record_in_doubt_stays_in_doubt_when_its_transaction_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """aiokafka commits without a record whose send had an error. Such a record was called acknowledged, and then lost.
    It has no time: two of them are no transaction that could be torn."""
    rig = Rig(monkeypatch)
    rig.clients[0].doubtful = {1}
    rig.send(0, 1)
    rig.until_due()
    assert rig.rows("status", "error", "offset") == [(ACKED, 0, 0), (UNKNOWN, 7, -1)]
    assert rig.rows("acked_ns")[1] == (-1,)


def test_a_commit_in_which_the_client_itself_went_wrong_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit may have been carried out. When the producer closed, these records were called aborted."""
    rig = Rig(monkeypatch, ClientError("the JVM has ended"))
    rig.send(0)
    with pytest.raises(ClientError, match="the JVM has ended"):
        rig.until_due()
    rig.producer.close(1.0)
    assert rig.rows("status", "error") == [(UNKNOWN, -1)]
    assert rig.steps == ["begin", "commit", "close"]


def test_no_abort_counts_as_planned_that_was_not_and_no_doubt_is_without_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(monkeypatch, TransactionAborted("no code", 0), TransactionUnknown("no code", 0), records_max=1)
    rig.send(0, 1)
    assert rig.rows("status", "error") == [(ABORTED, -1), (UNKNOWN, -1)]


def test_between_two_transactions_nothing_has_been_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The closed loop adds what is answered to its room: it sent a run at once, whatever `outstanding` said."""
    rig = Rig(monkeypatch, records_max=3)
    rig.send(0, 1)
    assert rig.producer.answered == 2
    rig.send(2)
    assert rig.producer.answered == 0


def test_a_client_that_cannot_abort_is_closed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch, ClientError("the JVM has ended"))
    rig.send(0)
    with pytest.raises(ClientError, match="the JVM has ended"):
        rig.producer.close(1.0)
    assert rig.rows("status", "error") == [(ABORTED, -1)]
    assert rig.steps[-1] == "close"


def test_what_is_open_at_the_end_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.send(0)
    rig.producer.close(1.0)
    assert rig.rows("status", "error") == [(ABORTED, -1)]
    assert rig.steps == ["begin", "abort", "close"]


def test_batches_of_outcomes_are_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(monkeypatch)
    rig.clients[0].silent = set(range(5, 9))
    rig.send(5, 6, 7, 8)
    rig.clients[0].sink.many([4, 5, 6], ACKED, 0, 3, 70, 12)  # 4 is of an earlier transaction
    rig.clients[0].sink.many([7, 8], ACKED, 0, 2, 30)
    rig.until_due()
    assert rig.rows("seq", "partition", "offset", "append_ms") == [
        (5, 3, 71, 12),
        (6, 3, 72, 12),
        (7, 2, 30, -1),
        (8, 2, 31, -1),
    ]


def test_knobs_of_transactions_need_transactions() -> None:
    for wrong in ({"transaction_abort_share": 0.1}, {"transaction_records": 10}):
        with pytest.raises(ValidationError, match="commit_interval_ms"):
            Workload(rate_per_s=1, **wrong)
    shared = {"name": "s", "mode": "share", "own_processes": True}
    with pytest.raises(ValidationError, match="share groups read no load that is sent in transactions"):
        Workload.model_validate({"rate_per_s": 1, "commit_interval_ms": 5, "readers": [shared]})


def test_all_clients_of_ours_have_transactions_and_the_pages_name_them() -> None:
    able = clients_with_transactions()
    assert set(able) == set(client_names())
    for client in able:
        check_transactions(client, {}, has_readers=True)
    named = ", ".join(f"`{client}`" for client in able[:-1]) + f" and `{able[-1]}`"
    for page in ("docs/guide/load.md", "docs/guide/suites/transactions.md", "docs/guide/clients.md"):
        assert named in " ".join(Path(page).read_text(encoding="utf-8").split()), f"{page} does not name {named}"


def test_a_client_without_transactions_is_refused_with_those_that_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose package is not installed is not named, and its message does not stand instead of this one."""
    monkeypatch.setitem(BUILTIN, "aiokafka", "workloads.clients.no_such_package")
    monkeypatch.setitem(BUILTIN, "without", "workloads.clients.values")
    with pytest.raises(
        ClientError, match=r"client without sends no load in transactions: .*reference, confluent, kafka"
    ):
        check_transactions("without", {})


@pytest.mark.parametrize(
    ("name", "value"),
    [("acks", "1"), ("enable.idempotence", "false"), ("retries", "0"), ("max.in.flight.requests.per.connection", "6")],
)
def test_settings_that_transactions_cannot_have_are_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(PropertyError, match=f"{name}: .*does not go with transactions"):
        check_transactions("reference", {name: value})


# --- with real clients ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceBroker]:
    settings = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
    running = ReferenceBroker(tmp_path_factory.mktemp("broker"), settings)
    yield running
    running.stop()


HEAVY = {"librdkafka"}  # to build it asks cargo for much


def runtime_of(client: str, cache: Path) -> dict[str, str]:
    if client not in RECIPES:
        return build.build(ensure_jars(), cache, java_command()) if client == "java" else {}
    if problem := missing_tool(client):
        pytest.skip(f"{problem}: {RECIPES[client].fix}")
    return runtime_of_program(built(client, cache_directory()))


def final_read(tmp_path: Path, broker: ReferenceBroker, topic: str, t0_ns: int) -> tuple[Any, ...]:
    host, port = broker.address.split(":")
    with BrokerProbe(Address(host=host, port=int(port)), timeout_s=30.0) as probe:
        reader = TopicLogReader(topic, lambda _partition: probe)
        clock = RunClock(t0_monotonic_ns=t0_ns)
        for partition in range(PARTITIONS):
            while probe.stable_offset(topic, partition) != probe.end_offset(topic, partition):
                time.sleep(0.01)  # a commit is answered before its markers are written
        found = read_log(tmp_path, "c1", reader=reader, partitions=range(PARTITIONS), clock=clock)
    assert found.complete, found.reason
    return tuple(
        sorted((row["partition"], row["offset"], row["seq"]) for row in read_stream(tmp_path, name, "c1").to_pylist())
        for name in ("log", "uncommitted")
    )


# A program that speaks the client protocol, as `./my-client` does.
PROGRAM = "process:" + shlex.join([sys.executable, str(Path(shipped.__file__).parent / "python" / "client.py")])
CLIENTS = [
    "reference", "confluent", "aiokafka", "kafka_python", pytest.param("java", marks=pytest.mark.kafka),
    pytest.param(PROGRAM, id="program"),
    *(
        pytest.param(name, marks=[pytest.mark.long, *([pytest.mark.versions] if name in HEAVY else [])])
        for name in clients_with_transactions() if name in RECIPES
    ),
]  # fmt: skip
# They commit a transaction without a record whose send had an error, which they have told.
LENIENT = {"aiokafka", "franz-go", "kafkajs"}


def topic_of(client: str) -> str:
    return "program" if client == PROGRAM else client


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_the_log_and_each_reader_have_exactly_what_the_outcomes_say(
    tmp_path: Path, broker: ReferenceBroker, client: str
) -> None:
    """A fifth of the transactions is aborted: those records are in the log, and only read_uncommitted gives them."""
    topic = topic_of(client)
    broker.create_topics(topic)
    workload = {
        "rate_per_s": 500, "record_size_bytes": 200, "commit_interval_ms": 50, "transaction_records": 40,
        "transaction_abort_share": 0.2, "warmup_ms": 0, "measure_ms": 2_000, "drain_ms": 60_000,
        "readers": [
            {"name": "committed"},
            {"name": "uncommitted", "properties": {"isolation.level": "read_uncommitted"}},
        ],
    }  # fmt: skip
    load = Load(tmp_path, broker.address, workload, {"enable.idempotence": True}, client=client, topic=topic,
                runtime=runtime_of(client, tmp_path / "cache"))  # fmt: skip
    assert load.finish() == 0, load.events[-3:]
    compact_cell(tmp_path, "c1")
    sent = load.rows(SEND.name)
    assert len(sent) == 1_000
    committed, aborted = (
        sorted((row["partition"], row["offset"], row["seq"]) for row in sent if row["status"] == status)
        for status in (ACKED, ABORTED)
    )
    assert len(committed) + len(aborted) == 1_000
    assert committed
    assert aborted
    assert all(row["error"] == 0 and row["sent_us"] <= row["acked_us"] for row in sent)
    assert final_read(tmp_path, broker, topic, load.t0_ns) == (committed, aborted)
    ends = {status: {row["acked_us"] for row in sent if row["status"] == status} for status in (ACKED, ABORTED)}
    told = [
        line["values"]["0"] for line in read_jsonl(events_path(tmp_path, "c1", "stats")) if line["name"] == "client"
    ][-1]
    assert told["transactions committed"] == len(ends[ACKED])
    assert told["transactions aborted as planned"] == len(ends[ABORTED])
    received = load.rows(RECV.name)
    for reader, expected in ((0, committed), (1, sorted(committed + aborted))):
        its = sorted((row["partition"], row["offset"], row["seq"]) for row in received if row["reader"] == reader)
        assert its == expected
    ended = {row["seq"]: row["acked_us"] for row in sent}
    assert len(set(ended.values())) >= 1_000 / 40


class Collected:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []

    def one(self, seq: int, status: SendStatus, *_: int) -> None:
        self.rows.append((seq, status))

    def many(self, seqs: Any, status: SendStatus, *_: int) -> None:
        self.rows += [(seq, status) for seq in seqs]

    def timed(self, outcomes: Any) -> None:
        self.rows += [(int(row["seq"]), int(row["status"])) for row in outcomes]


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_a_fenced_client_knows_of_no_commit(tmp_path: Path, broker: ReferenceBroker, client: str) -> None:
    """Its rival has its transactional.id. Whether the transaction counts, only the rival's log can tell."""
    topic = f"fenced-{topic_of(client)}"
    broker.create_topics(topic)
    setup = ClientSetup(bootstrap_servers=broker.address, topics=(topic,), properties={}, transactional_id=topic,
                        runtime=runtime_of(client, tmp_path / "cache"))  # fmt: skip
    sink, rivals = Collected(), Collected()
    first, rival = (make_transactional_producer(client, setup, each) for each in (sink, rivals))
    first.connect(60.0)
    first.begin()
    assert first.send(topic, b"v" * 40, None, 0)
    until(lambda: bool(sink.rows), first.poll)
    assert sink.rows == [(0, ACKED)]
    rival.connect(60.0)
    rival.begin()
    assert rival.send(
        topic, b"v" * 40, None, 0
    )  # franz-go asks for its epoch with its first record, kafkajs in `begin`
    until(lambda: bool(rivals.rows), rival.poll)
    with pytest.raises((TransactionUnknown, TransactionAborted)):
        first.commit(20.0)
    first.close(1.0)
    rival.commit(20.0)
    assert rivals.rows == [(0, ACKED)]
    rival.close(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_a_record_that_the_broker_refuses_aborts_its_transaction_and_the_client_goes_on(
    tmp_path: Path, broker: ReferenceBroker, client: str
) -> None:
    topic, wide = f"narrow-{topic_of(client)}", f"wide-{topic_of(client)}"
    broker.create_topics(topic, config={"max.message.bytes": "500"})
    broker.create_topics(wide)
    setup = ClientSetup(bootstrap_servers=broker.address, topics=(topic, wide), properties={}, transactional_id=topic,
                        runtime=runtime_of(client, tmp_path / "cache"))  # fmt: skip
    sink = Collected()
    producer = make_transactional_producer(client, setup, sink)
    producer.connect(60.0)
    producer.begin()
    assert producer.send(topic, os.urandom(2_000), None, 0)  # franz-go compresses by itself
    if client in LENIENT:
        producer.commit(60.0)
    else:
        with pytest.raises(TransactionAborted):
            producer.commit(60.0)
    assert sink.rows in ([(0, FAILED)], [(0, UNKNOWN)])  # unknown where an earlier attempt may have been hidden
    # To another topic: where the marker of an abort is, brokers refuse the sequence after a record that they refused.
    producer.begin()
    assert producer.send(wide, b"v" * 40, None, 1)
    producer.commit(60.0)
    assert sink.rows[1:] == [(1, ACKED)]
    producer.close(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_a_commit_without_an_answer_is_unknown_and_the_client_closes(
    tmp_path: Path, broker: ReferenceBroker, client: str
) -> None:
    """The broker has the record, and stands still before it hears of the commit. Nobody may call that aborted."""
    topic = f"frozen-{topic_of(client)}"
    broker.create_topics(topic)
    setup = ClientSetup(bootstrap_servers=broker.address, topics=(topic,), properties={}, transactional_id=topic,
                        runtime=runtime_of(client, tmp_path / "cache"))  # fmt: skip
    sink = Collected()
    producer = make_transactional_producer(client, setup, sink)
    producer.connect(60.0)
    producer.begin()
    assert producer.send(topic, b"v" * 40, None, 0)
    until(lambda: bool(sink.rows), producer.poll)
    os.kill(broker.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(TransactionUnknown):
            producer.commit(1.0)
        producer.close(0.5)
    finally:
        os.kill(broker.process.pid, signal.SIGCONT)
    assert sink.rows == [(0, ACKED)]


@pytest.mark.slow
def test_a_kafka_python_producer_closes_with_records_under_way_and_sends_nothing_afterwards(
    broker: ReferenceBroker,
) -> None:
    """The library's own close gives up with an error, which ended the cell, and its thread sent the records later."""
    topic = "closed-kafka_python"
    broker.create_topics(topic)
    sink = Collected()
    producer = make_producer(
        "kafka_python", ClientSetup(bootstrap_servers=broker.address, topics=(topic,), properties={}), sink
    )
    producer.connect(60.0)
    os.kill(broker.process.pid, signal.SIGSTOP)
    try:
        assert producer.send(topic, b"v" * 40, None, 0)
        producer.close(0.5)
        assert sink.rows == [(0, UNKNOWN)]
    finally:
        os.kill(broker.process.pid, signal.SIGCONT)
    assert not producer._producer._sender.is_alive()  # type: ignore[attr-defined]


def until(is_there: Callable[[], bool], poll: Callable[[float], object]) -> None:
    for _ in range(6_000):
        poll(0.01)
        if is_there():
            return
    raise AssertionError("it never came")
