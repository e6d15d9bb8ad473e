"""A client process in the load: its outcomes in the run log's rows, its readers and members, and what ends it."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runlog.streams.schema import SendStatus
from tests.patience import Patience
from workloads.clients import (
    check_properties,
    client_names,
    is_client,
    make_consumer,
    make_copier,
    make_member,
    make_producer,
    nearest_properties,
)
from workloads.clients.member_protocol import CopierSetup, MemberSetup, Partition
from workloads.clients.process.library import command_of
from workloads.clients.process.load import ProcessProducer
from workloads.clients.protocol import ClientError, ClientSetup, ProducerClient, PropertyError, RecordBatch

PROGRAM = """
import json, sys, time

def now():
    return time.monotonic_ns() // 1000

def say(event, **fields):
    print(json.dumps({"event": event, "at_us": now(), **fields}), flush=True)

say("ready", protocol=1, client="scripted", can=["produce", "subscribe", "commit", "assign"], in_flight_max=50,
    properties={"producer": ["acks", "bootstrap.servers", "linger.ms"], "consumer": ["bootstrap.servers", "group.id"]})
for line in sys.stdin:
    command = json.loads(line)
    do, number = command["do"], command["id"]
    if do == "produce":
        for each in command["records"]:
            record = {"seq": each["seq"], "sent_us": now()}
            if each["seq"] % 3 == 0:
                record |= {"partition": 2, "offset": 100 + each["seq"], "timestamp_ms": 5}
                say("acknowledged", records=[record])
            elif each["seq"] % 3 == 1:
                say("failed", records=[record], code=17)
            else:
                say("unknown", records=[record], code=-1)
            if each["seq"] == 7:
                say("acknowledged", records=[{**record, "partition": 2, "offset": 1}])
    elif do == "poll":
        say("assigned", partitions=[{"topic": "t", "partition": 1}], generation=4)
        say("committed", partitions=[{"topic": "t", "partition": 1, "offset": 3}])
        value = {"key": None, "value": "aGVsbG8=", "timestamp_ms": 9}
        say("polled", id=number, records=[{"topic": "t", "partition": 1, "offset": 3, **value}])
    elif do == "commit" and command["partitions"][0]["offset"] == 13:
        say("error", id=number, reason="rebalance", code=27)
    elif do == "commit":
        say("committed", id=number, partitions=command["partitions"])
    else:
        say("done", id=number, **({"effective": {"acks": "all"}} if do == "connect" else {}))
"""
pytestmark = pytest.mark.slow


class Sink:
    """Keeps the rows that a producer tells."""

    def __init__(self) -> None:
        self.rows: list[NDArray[Any]] = []

    def timed(self, outcomes: NDArray[Any]) -> None:
        self.rows.append(outcomes)

    def told(self) -> list[tuple[int, ...]]:
        fields = ["seq", "status", "error", "partition", "offset", "append_ms"]
        return sorted(tuple(int(row[name]) for name in fields) for row in np.concatenate(self.rows))


class Listener:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def assigned(self, partitions: Sequence[Partition], generation: int) -> None:
        self.heard.append(("assigned", list(partitions), generation))

    def revoked(self, partitions: Sequence[Partition]) -> None:
        self.heard.append(("revoked", list(partitions)))

    def committed(self, positions: Mapping[Partition, int]) -> None:
        self.heard.append(("committed", dict(positions)))


@pytest.fixture
def client(tmp_path: Path) -> str:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    return f"process:{shlex.join([sys.executable, str(program)])}"


def setup(**more: Any) -> ClientSetup:
    return ClientSetup(bootstrap_servers="b:1", **{"topics": ("t",), "properties": {"acks": "all"}, **more})


def until_told(producer: ProducerClient, sink: Sink, count: int) -> None:
    patience = Patience("the outcomes")
    while sum(map(len, sink.rows)) < count:
        producer.poll(0.01)
        patience.check(sum(map(len, sink.rows)))


def test_outcomes_become_rows_with_the_times_of_the_client(client: str) -> None:
    sink = Sink()
    producer = make_producer(client, setup(), sink)  # type: ignore[arg-type]  # it needs `timed` only
    producer.connect(10)
    for seq in range(6):
        assert producer.send("t", b"value", None, seq)
    until_told(producer, sink, 6)
    producer.close(2)
    acked, failed, unknown = int(SendStatus.ACKED), int(SendStatus.FAILED), int(SendStatus.UNKNOWN)
    assert sink.told() == [
        (0, acked, 0, 2, 100, 5),
        (1, failed, 17, -1, -1, -1),
        (2, unknown, -1, -1, -1, -1),
        (3, acked, 0, 2, 103, 5),
        (4, failed, 17, -1, -1, -1),
        (5, unknown, -1, -1, -1, -1),
    ]
    rows = np.concatenate(sink.rows)
    assert (rows["acked_ns"] >= rows["sent_ns"]).all()
    assert producer.effective() == {"acks": "all", "client.library": "scripted"}


def test_a_producer_has_no_room_beyond_what_the_program_wants_in_flight(client: str) -> None:
    producer = make_producer(client, setup(), Sink())  # type: ignore[arg-type]
    producer.connect(10)
    assert [producer.send("t", b"value", None, seq * 3) for seq in range(51)] == [True] * 50 + [False]
    producer.close(2)


def test_a_mistake_ends_the_producer_with_the_line_that_shows_it(client: str) -> None:
    producer = make_producer(client, setup(), Sink())  # type: ignore[arg-type]
    producer.connect(10)
    producer.send("t", b"value", None, 7)
    patience = Patience("the mistake")
    with pytest.raises(ClientError, match=r"breaks the client protocol: line 4: record 7 is acknowledged, and had its"):
        while True:
            producer.poll(0.01)
            patience.check()
    producer.close(2)


def test_a_property_that_the_program_does_not_declare_is_refused_with_the_nearest(client: str) -> None:
    check_properties(client, {"acks": "all"})
    with pytest.raises(PropertyError, match=r"cannot set linger\.mss: .* did you mean linger\.ms"):
        check_properties(client, {"linger.mss": "5"})
    with pytest.raises(PropertyError, match=r"cannot set transactional.id: the harness names it"):
        make_producer(client, setup(properties={"transactional.id": "x"}), Sink())  # type: ignore[arg-type]


def test_a_scenario_runs_without_the_tuning_that_the_program_lacks_and_says_so(client: str) -> None:
    wanted = {"acks": "all", "batch.size": "1000", "linger.ms": "5", "enable.idempotence": "true"}
    kept, changes = nearest_properties(client, wanted, as_they_are=())
    assert (dict(kept), list(changes)) == (
        {"acks": "all", "linger.ms": "5", "enable.idempotence": "true"},
        ["no batch.size"],
    )
    assert "batch.size" in nearest_properties(client, wanted, as_they_are=("batch.size",))[0]


def test_a_reader_gets_records_with_the_time_of_the_poll(client: str) -> None:
    consumer = make_consumer(client, setup(properties={}))
    before_ns = time.monotonic_ns()
    consumer.connect([("t", 1)], 10)
    polled = consumer.poll(0.1)
    assert list(polled.records) == [("t", 1, 3, b"hello", 9)]
    assert before_ns < polled.polled_ns < time.monotonic_ns()
    consumer.close()


def test_a_member_tells_its_rebalances_and_commits_and_a_refused_commit(client: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace('"group.id"]', '"group.id", "auto.offset.reset", "enable.auto.commit"]'))
    listener = Listener()
    member_setup = MemberSetup(
        bootstrap_servers="b:1", topics=("t",), group_id="g", properties={}, start="earliest", is_auto_commit=False
    )
    member = make_member(client, member_setup, listener)
    member.connect(10)
    polled = member.poll(0.1)
    assert list(polled.records) == [("t", 1, 3, b"hello", 9)]
    assert listener.heard == [("assigned", [("t", 1)], 4), ("committed", {("t", 1): 3})]
    member.commit({("t", 1): 4})
    with pytest.raises(Exception, match="rebalance"):
        member.commit({("t", 1): 13})
    member.close()
    copier = CopierSetup(member=member_setup, transactional_id="x", producer_properties={})
    with pytest.raises(ClientError, match="cannot be a transactional copier"):
        make_copier(client, copier, listener)


def test_a_name_is_a_client_if_it_is_shipped_or_says_how_a_program_is_started(tmp_path: Path) -> None:
    assert {"franz-go", "kafkajs"} <= set(client_names())
    assert [is_client(name) for name in ("franz-go", "./mine", "process:mine --fast", "mine")] == [
        True,
        True,
        True,
        False,
    ]
    with pytest.raises(ClientError, match="there is no program /"):
        command_of("./no-such-client")
    with pytest.raises(ClientError, match="no command"):
        command_of("process: ")
    assert command_of("process:node client.js").command == ("node", "client.js")


def test_a_program_that_is_a_link_is_started_by_the_link(tmp_path: Path) -> None:
    """The Python of a virtual environment is one: what it links to does not have the packages of the environment."""
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    assert command_of(f"process:{link} client.py").command == (str(link), "client.py")


FRAMED = """
import json, os, signal, struct, sys, time

def now():
    return time.monotonic_ns() // 1000

def say(event, **fields):
    sys.stdout.buffer.write(json.dumps({"event": event, "at_us": now(), **fields}).encode() + b"\\n")
    sys.stdout.buffer.flush()

read = sys.stdin.buffer
say("ready", protocol=1, client="framed", can=["produce", "frames"], in_flight_max=50_000,
    properties={"producer": ["acks", "bootstrap.servers"]})
while first := read.read(1):
    if first == b"{":
        command = json.loads(first + read.readline())
        if command["do"] == "connect":
            topics = command["topics"]
        say("done", id=command["id"])
        continue
    _kind, count, size = struct.unpack("<iiq", first + read.read(15))
    contents, sent_us, out = read.read(size), now(), b""
    rows = list(struct.iter_unpack("<qiiii", contents[: 24 * count]))
    key_at = 24 * count
    at = key_at + sum(row[3] for row in rows)
    for seq, topic, partition, key, value in rows:
        checks = topics[topic] == "u" and contents[at : at + value] == b"value-%d" % seq and partition == -1
        checks = checks and contents[key_at : key_at + key] == b"key-%d" % seq
        key_at, at = key_at + key, at + value
        out += struct.pack("<qqqqqihh", seq, sent_us, now(), 100 + seq, 5, 2, 0, 0 if checks else 2)
        if seq == 40_999:
            out += out[:48]
    if seq == 41_999:
        sys.stdout.buffer.write(struct.pack("<iiq", 2, 1000, 48000) + out[:24_001])
        sys.stdout.buffer.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdout.buffer.write(struct.pack("<iiq", 2, len(out) // 48, len(out)) + out)
    sys.stdout.buffer.flush()
"""


@pytest.fixture
def framed(tmp_path: Path) -> Iterator[tuple[ProcessProducer, Sink]]:
    program = tmp_path / "framed.py"
    program.write_text(FRAMED)
    sink = Sink()
    name = f"process:{shlex.join([sys.executable, str(program)])}"
    producer = make_producer(name, setup(topics=("t", "u")), sink)  # type: ignore[arg-type]  # it needs `timed` only
    assert isinstance(producer, ProcessProducer)
    producer.connect(10)
    yield producer, sink
    producer.close(2)


def batch(first: int, count: int) -> RecordBatch:
    seqs = range(first, first + count)
    keys, values = ([b"%s-%d" % (word, seq) for seq in seqs] for word in (b"key", b"value"))
    return RecordBatch(
        seqs=np.array(seqs), topics=np.ones(count, dtype=np.int32), partitions=np.full(count, -1, dtype=np.int32),
        key_sizes=np.array([len(key) for key in keys], dtype=np.int32),
        keys=np.frombuffer(b"".join(keys), dtype=np.uint8),
        value_sizes=np.array([len(value) for value in values], dtype=np.int32),
        values=np.frombuffer(b"".join(values), dtype=np.uint8),
    )  # fmt: skip


def test_a_client_with_frames_gets_batches_and_tells_rows(framed: tuple[ProcessProducer, Sink]) -> None:
    producer, sink = framed
    assert producer.takes_batches
    for first in range(0, 40_000, 4_000):
        assert producer.room() >= 4_000
        producer.send_batch(batch(first, 4_000))
        producer.poll(0)
    until_told(producer, sink, 40_000)  # type: ignore[arg-type]
    rows = np.sort(np.concatenate(sink.rows), order="seq")
    assert rows["seq"].tolist() == list(range(40_000))
    assert (rows["offset"] == rows["seq"] + 100).all()
    assert {(int(row["status"]), int(row["partition"]), int(row["append_ms"])) for row in rows} == {
        (int(SendStatus.ACKED), 2, 5)
    }
    assert (rows["acked_ns"] >= rows["sent_ns"]).all()
    assert rows["sent_ns"].min() > 0


def test_a_client_with_frames_has_no_room_beyond_what_it_wants_in_flight(
    framed: tuple[ProcessProducer, Sink],
) -> None:
    producer, _ = framed
    rooms = []
    with producer._peer._changed:  # no outcome is heard meanwhile
        for first in range(0, 50_000, 9_000):
            rooms.append(producer.room())
            producer.send_batch(batch(first, min(9_000, rooms[-1])))
        rooms.append(producer.room())
    assert rooms == [10_000, 10_000, 10_000, 10_000, 10_000, 5_000, 0]


def test_a_mistake_in_a_frame_ends_the_producer(framed: tuple[ProcessProducer, Sink]) -> None:
    producer, _ = framed
    producer.send_batch(batch(40_999, 1))
    patience = Patience("the mistake")
    with pytest.raises(ClientError, match=r"breaks the client protocol: line 3: record 40999 is acknowledged, and had"):
        while True:
            producer.poll(0.01)
            patience.check()


def test_a_client_that_is_killed_within_a_frame_has_told_the_frames_before(
    framed: tuple[ProcessProducer, Sink],
) -> None:
    producer, sink = framed
    producer.send_batch(batch(0, 1_000))
    until_told(producer, sink, 1_000)  # type: ignore[arg-type]
    producer.send_batch(batch(41_000, 1_000))
    patience = Patience("the end of the client")
    with pytest.raises(ClientError, match="by SIGKILL, with 1000 records without an outcome"):
        while True:
            producer.poll(0.01)
            patience.check()
    assert np.concatenate(sink.rows)["seq"].tolist() == list(range(1_000))
    producer._peer.kill()
