"""Member processes: what they do stands in their journals, whatever ends them, and becomes rows of the run log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from broker.door.clients import Admin, Consumer, Producer, TopicPartition
from broker.door.questions import more_partitions
from runlog.files.paths import events_path
from runlog.records.history import TransactionOutcome
from runlog.records.member import MemberSpec
from runlog.streams.parquet import read_stream
from runlog.streams.payload import make
from tests.json_lines import read_jsonl
from tests.workloads.reference_broker import PARTITIONS, ReferenceBroker
from workloads.clients import make_copier, make_member
from workloads.clients.confluent.member import ConfluentMember, generation_of
from workloads.clients.member_protocol import CopierSetup, CopyUnknown, MemberSetup
from workloads.clients.positions import beginnings, step_back
from workloads.clients.protocol import PropertyError
from workloads.members.journal import MemberJournal
from workloads.members.loop import positions_after, slices
from workloads.members.spec import spec_text, to_properties
from workloads.members.transcribe import members_directory, transcribe_cell
from workloads.model import Workload
from workloads.reader_group import ReaderGroup

TOPIC = "t"
RECORDS = 120

# They take as long, and differ from the others in what tests of their own show.
OF_TEST_ALL = [pytest.param(name, marks=pytest.mark.long) for name in ("confluent", "aiokafka", "kafka_python")]


def value(seq: int) -> bytes:
    return make(producer=1, incarnation=0, seq=seq, intended_ns=2_000_000, body=b"x" * 40)


def spec(directory: Path, **changes: object) -> MemberSpec:
    base = MemberSpec(
        member="app-0", consumer=3, reader=1, incarnation=0, client="confluent", bootstrap_servers="", topic=TOPIC,
        group_id="t-app", journal=str(directory / "app-0-0.jsonl"),
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]  # names of fields


# --- pure -------------------------------------------------------------------------------------------------------------


def test_a_journal_becomes_deliveries_and_history(tmp_path: Path) -> None:
    directory = members_directory(tmp_path, "c")
    directory.mkdir(parents=True)
    mine = spec(directory)
    (directory / "app-0-0.json").write_text(spec_text(mine))
    journal = MemberJournal(Path(mine.journal))
    journal.assigned([(TOPIC, 2)], 7)
    journal.delivered([(TOPIC, 2, 5, value(0), -1), (TOPIC, 2, 6, value(1), -1)], 3_000_000)
    journal.delivered([(TOPIC, 2, 7, b"none of ours", -1)], 4_000_000)
    journal.committed({(TOPIC, 2): 8})
    journal.transaction(4, TransactionOutcome.COMMITTED, asked_ns=5_000_000)
    journal.close()
    with Path(mine.journal).open("a") as file:
        file.write('{"mono_ns": 1, "kind": "delivered", "rec')  # torn by a kill
    assert transcribe_cell(tmp_path, "c", topic=TOPIC, t0_monotonic_ns=1_000_000) == 3
    rows = read_stream(tmp_path, "recv", "c").to_pydict()
    assert rows["offset"] == [5, 6, 7]
    assert (rows["seq"], rows["crc_ok"]) == ([0, 1, -1], [1, 1, 0])
    assert rows["polled_us"] == [2_000, 2_000, 3_000]
    assert (rows["consumer"][0], rows["reader"][0], rows["generation"][0]) == (3, 1, 7)
    lines = list(read_jsonl(events_path(tmp_path, "c", "history")))
    assert {line["kind"] for line in lines} == {"assigned", "position", "committed", "transaction"}
    position = next(line for line in lines if line["kind"] == "position")
    assert (position["t_us"], position["partition"], position["offset"]) == (2_000, 2, 5)
    transaction = next(line for line in lines if line["kind"] == "transaction")
    assert (transaction["copier"], transaction["number"], transaction["asked_us"]) == (3, 4, 4_000)


def test_readers_of_copies_go_to_the_audit(tmp_path: Path) -> None:
    directory = members_directory(tmp_path, "c")
    directory.mkdir(parents=True)
    mine = spec(directory, topic=f"{TOPIC}-copy")
    (directory / "app-0-0.json").write_text(spec_text(mine))
    journal = MemberJournal(Path(mine.journal))
    journal.delivered([(mine.topic, 0, 1, value(0), -1)], 3_000_000)
    journal.close()
    transcribe_cell(tmp_path, "c", topic=TOPIC, t0_monotonic_ns=0)
    assert read_stream(tmp_path, "audit", "c").num_rows == 1
    assert read_stream(tmp_path, "recv", "c").num_rows == 0


def test_work_is_cut_into_slices_of_20_ms_and_positions_are_after_the_last_record() -> None:
    records = [(TOPIC, 0, offset, b"", -1) for offset in range(50)]
    assert [len(part) for part in slices(records, 1_000)] == [20, 20, 10]
    assert [len(part) for part in slices(records, 0)] == [50]
    assert [len(part) for part in slices(records, 50_000)] == [1] * 50
    assert positions_after([(TOPIC, 0, 4, b"", -1), (TOPIC, 1, 9, b"", -1), (TOPIC, 0, 5, b"", -1)]) == {
        (TOPIC, 0): 6,
        (TOPIC, 1): 10,
    }


def test_what_was_not_processed_comes_again_where_the_partition_is_still_ones_own() -> None:
    """The way back that adapters of Python clients share."""
    polled = [(TOPIC, 0, 4, b"", -1), (TOPIC, 1, 9, b"", -1), (TOPIC, 0, 5, b"", -1)]
    assert beginnings(polled) == {(TOPIC, 0): 4, (TOPIC, 1): 9}
    with closing(Consumer({"bootstrap.servers": "127.0.0.1:1"})) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        consumer.seek(TopicPartition(TOPIC, 0), 6)
        step_back(consumer, {(TOPIC, 0): 4, (TOPIC, 1): 9}, TopicPartition)
        assert consumer.position(TopicPartition(TOPIC, 0)) == 4


@pytest.mark.parametrize(
    ("name", "given", "problem"),
    [
        ("session.timeout.ms", "6000", "broker decides that"),
        ("enable.auto.commit", "false", "the reader's `commit` decides that"),
        ("sesion.timeout.ms", "6000", "session.timeout.ms"),
        ("value.deserializer", "org.example.Own", "cannot be loaded"),
    ],
)
def test_the_reference_member_refuses_by_name_what_it_cannot_set(name: str, given: str, problem: str) -> None:
    setup = MemberSetup(
        bootstrap_servers="127.0.0.1:1", topics=(TOPIC,), group_id="g", start="earliest", is_auto_commit=True,
        properties={"group.protocol": "consumer", name: given},
    )  # fmt: skip
    with pytest.raises(PropertyError, match=problem) as refused:
        make_member("reference", setup, MemberJournal(Path(os.devnull)))
    assert refused.value.name == name


def test_a_jvm_gets_the_same_as_properties(tmp_path: Path) -> None:
    own = spec(
        tmp_path, client="java", copy_to="t-copy", transactional_id="t: 1", properties={"session.timeout.ms": "6000"}
    )
    lines = dict(line.split("=", 1) for line in to_properties(own).splitlines())
    assert lines["consumer.session.timeout.ms"] == "6000"
    assert lines["consumer.enable.auto.commit"] == "false"  # a copier commits in its transactions
    assert lines["producer.transactional.id"] == "t\\:\\ 1"


def test_the_generation_is_read_from_librdkafkas_metadata() -> None:
    assert generation_of(b"CGMDv2:" + (17).to_bytes(4, sys.byteorder) + b"group\0member\0\1") == 17
    assert generation_of(b"something else") == -1


def test_an_assignment_of_a_consumer_that_is_being_closed_has_no_generation(tmp_path: Path) -> None:
    """librdkafka no longer tells the group's metadata then. An error in its callback would hide the reason."""
    path = tmp_path / "journal.jsonl"
    journal = MemberJournal(path)
    setup = MemberSetup(
        bootstrap_servers="127.0.0.1:1", topics=("t",), group_id="g", properties={}, start="earliest",
        is_auto_commit=False,
    )  # fmt: skip
    member = ConfluentMember(setup, journal)
    member.close()
    with pytest.raises(RuntimeError):
        member.consumer.consumer_group_metadata()
    member._on_assign(member.consumer, [])
    journal.close()
    (line,) = read_jsonl(path)
    assert (line["kind"], line["generation"]) == ("assigned", -1)


@pytest.mark.parametrize(
    ("reader", "problem"),
    [
        ({"own_processes": True}, "needs mode: group or share"),
        ({"commit": "before"}, "need own_processes"),
        ({"own_processes": True, "mode": "group", "copies": True, "commit": "after"}, "in the transaction"),
        ({"own_processes": True, "mode": "group", "producer_properties": {"a": 1}}, "belong to copies"),
        ({"own_processes": True, "mode": "group", "deduplicate": "table"}, "inside the load process"),
    ],
)
def test_a_reader_that_contradicts_itself_is_refused(reader: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ReaderGroup.model_validate({"name": "app", **reader})


def test_members_are_no_users_of_the_load_process() -> None:
    readers = [{"name": "tail"}, {"name": "app", "consumers": 3, "mode": "group", "own_processes": True}]
    workload = Workload.model_validate({"rate_per_s": 1, "readers": readers})
    assert (workload.consumers, workload.consumers_inside) == (4, 1)
    with pytest.raises(ValueError, match="come after the others"):
        Workload.model_validate({"rate_per_s": 1, "readers": readers[::-1]})


# --- real processes ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceBroker]:
    settings = {
        "offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0", "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1", "transaction.state.log.num.partitions": "4",
    }  # fmt: skip
    running = ReferenceBroker(tmp_path_factory.mktemp("broker"), settings)
    yield running
    running.stop()


STARTED: list[subprocess.Popen[bytes]] = []


@pytest.fixture(autouse=True)
def _no_member_stays() -> Iterator[None]:
    """Also when the test has failed in the middle."""
    yield
    while STARTED:
        process = STARTED.pop()
        process.kill()
        process.wait(60)


def start(directory: Path, mine: MemberSpec) -> subprocess.Popen[bytes]:
    path = directory / f"app-0-{mine.incarnation}.json"
    path.write_text(spec_text(mine))
    STARTED.append(subprocess.Popen([sys.executable, "-m", "workloads.members", str(path)], cwd=os.getcwd()))
    return STARTED[-1]


def lines(mine: MemberSpec, kind: str) -> list[dict[str, object]]:
    return [line for line in read_jsonl(Path(mine.journal)) if line["kind"] == kind]


def wait_for(condition: object, mine: MemberSpec) -> None:
    deadline_s = time.monotonic() + 60
    while not condition():  # type: ignore[operator]  # a function without arguments
        assert time.monotonic() < deadline_s, Path(mine.journal).read_text()[-500:]
        time.sleep(0.05)


def delivered(mine: MemberSpec) -> list[tuple[int, int]]:
    return [(p, offset) for line in lines(mine, "delivered") for _, p, offset, *_ in line["records"]]  # type: ignore[attr-defined]


def produce(broker: ReferenceBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    for seq in range(RECORDS):
        producer.send(topic, value(seq), partition=seq % PARTITIONS)
    assert producer.flush(60) == 0
    producer.close(5)


def committed_of(broker: ReferenceBroker, topic: str) -> dict[int, int]:
    """What the broker has of the group with the topic's name."""
    with closing(Consumer({"bootstrap.servers": broker.address, "group.id": topic})) as consumer:
        found = consumer.committed([TopicPartition(topic, partition) for partition in range(PARTITIONS)], 60_000)
    return {place.partition: commit.offset for place, commit in found.items() if commit is not None}


@pytest.mark.slow
@pytest.mark.parametrize("client", ["reference", *OF_TEST_ALL])
def test_a_killed_member_is_followed_at_its_last_commit(tmp_path: Path, broker: ReferenceBroker, client: str) -> None:
    topic = f"read-{client.replace('_', '-')}"
    broker.create_topics(topic)
    produce(broker, topic)
    properties = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "500", "max.poll.records": "20"}
    first = spec(
        tmp_path, client=client, bootstrap_servers=broker.address, topic=topic, group_id=topic, commit="after",
        processing_us=5_000, properties=properties,
    )  # fmt: skip
    process = start(tmp_path, first)
    wait_for(lambda: lines(first, "committed"), first)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    committed = committed_of(broker, topic)
    for line in lines(first, "committed"):
        for _, partition, offset in line["offsets"]:  # type: ignore[attr-defined]
            assert committed[partition] >= offset, "the kill may come between a commit and its line"
    second = replace(first, incarnation=1, journal=str(tmp_path / "second.jsonl"), processing_us=0)
    process = start(tmp_path, second)
    wait_for(lambda: len({*delivered(first), *delivered(second)}) == RECORDS, second)
    begun: dict[int, int] = {}
    for partition, offset in delivered(second):
        begun[partition] = min(offset, begun.get(partition, offset))
    end = RECORDS // PARTITIONS  # where nothing was left to read
    assert {partition: begun.get(partition, end) for partition in committed} == committed
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert lines(second, "left")
    assert lines(second, "assigned")[0]["generation"] != -1


class Assignments:
    """A listener that keeps what was assigned."""

    def __init__(self, kept: list[Sequence[tuple[str, int]]]) -> None:
        self._kept = kept

    def assigned(self, partitions: Sequence[tuple[str, int]], generation: int) -> None:
        self._kept.append(partitions)

    def revoked(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Of no interest here."""

    def committed(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Of no interest here."""


@pytest.mark.slow
def test_a_kafka_python_member_whose_polls_end_in_the_middle_of_a_join_is_assigned_what_was_added(
    broker: ReferenceBroker,
) -> None:
    """Before: joined, it was assigned nothing for ever."""
    topic = "grows-kafka-python"
    broker.create_topics(topic)
    assigned: list[Sequence[tuple[str, int]]] = []
    setup = MemberSetup(
        bootstrap_servers=broker.address, topics=(topic,), group_id=topic,
        properties={"metadata.max.age.ms": "100", "session.timeout.ms": "6000"}, start="earliest", is_auto_commit=False,
    )  # fmt: skip
    member = make_member("kafka_python", setup, Assignments(assigned))
    member.connect(20)
    with Admin({"bootstrap.servers": broker.address}) as admin:
        for count in range(PARTITIONS, PARTITIONS + 6):
            if count > PARTITIONS:
                admin.ask(more_partitions({topic: count}, 30_000))
            deadline_s = time.monotonic() + 60
            while not assigned or len(assigned[-1]) != count:
                member.poll(0.002)
                assert time.monotonic() < deadline_s, assigned
    member.close()


@pytest.mark.slow
@pytest.mark.parametrize("client", ["reference", *OF_TEST_ALL])
def test_a_member_that_stops_in_the_middle_of_its_work_commits_only_what_it_has_done(
    tmp_path: Path, broker: ReferenceBroker, client: str
) -> None:
    topic = f"stop-{client.replace('_', '-')}"
    broker.create_topics(topic)
    produce(broker, topic)
    first = spec(
        tmp_path, client=client, bootstrap_servers=broker.address, topic=topic, group_id=topic, commit="auto",
        processing_us=100_000, properties={"session.timeout.ms": "30000", "max.poll.records": "40"},
    )  # fmt: skip
    process = start(tmp_path, first)
    wait_for(lambda: len(lines(first, "delivered")) >= 5, first)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert len(delivered(first)) < RECORDS
    second = replace(first, incarnation=1, journal=str(tmp_path / "second.jsonl"), processing_us=0)
    process = start(tmp_path, second)
    wait_for(lambda: len({*delivered(first), *delivered(second)}) == RECORDS, second)
    assert not {*delivered(first)} & {*delivered(second)}
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.parametrize("client", ["reference", "confluent"])
def test_a_copier_that_was_fenced_says_so_and_can_be_replaced(
    tmp_path: Path, broker: ReferenceBroker, client: str
) -> None:
    topic = f"fenced-{client}"
    broker.create_topics(topic, f"{topic}-copy")
    member = MemberSetup(
        bootstrap_servers=broker.address, topics=(topic,), group_id=topic, properties={}, start="earliest",
        is_auto_commit=False,
    )  # fmt: skip
    setup = CopierSetup(member=member, transactional_id=f"{topic}-0", producer_properties={})
    journal = MemberJournal(tmp_path / "journal.jsonl")
    first, second = make_copier(client, setup, journal), make_copier(client, setup, journal)
    first.connect(20)
    first.begin()
    second.connect(20)
    with pytest.raises(CopyUnknown, match=r"(?i)fenced"):
        first.commit({(topic, 0): 1})
    first.close()
    second.close()
    journal.close()


@pytest.mark.slow
@pytest.mark.parametrize("client", ["reference", pytest.param("confluent", marks=pytest.mark.long)])
def test_a_copier_writes_each_record_once_with_its_offsets(
    tmp_path: Path, broker: ReferenceBroker, client: str
) -> None:
    topic = f"in-{client}"
    broker.create_topics(topic, f"{topic}-copy")
    produce(broker, topic)
    mine = spec(
        tmp_path, client=client, bootstrap_servers=broker.address, topic=topic, group_id=f"{topic}-copier",
        copy_to=f"{topic}-copy", transactional_id=f"{topic}-copier-0", properties={"session.timeout.ms": "30000"},
        producer_properties={"transaction.timeout.ms": "60000", "linger.ms": "5"},
    )  # fmt: skip
    process = start(tmp_path, mine)
    wait_for(lambda: sum(len(line["offsets"]) for line in lines(mine, "committed")) >= PARTITIONS, mine)
    wait_for(lambda: len(delivered(mine)) == RECORDS, mine)
    wait_for(lambda: len(lines(mine, "transaction")) == len(lines(mine, "transaction_began")), mine)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    reader = Consumer({"bootstrap.servers": broker.address, "isolation.level": "read_committed"})
    reader.assign([TopicPartition(f"{topic}-copy", partition) for partition in range(PARTITIONS)])
    reader.seek_to_beginning()
    copies = []
    deadline_s = time.monotonic() + 60
    while len(copies) < RECORDS and time.monotonic() < deadline_s:
        copies += reader.poll(timeout_ms=200)
    reader.close()
    assert sorted(copy.value for copy in copies) == sorted(value(seq) for seq in range(RECORDS))
    assert {line["outcome"] for line in lines(mine, "transaction")} == {"committed"}
