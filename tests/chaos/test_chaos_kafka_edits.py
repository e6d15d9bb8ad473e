"""Kafka toxics that delay, edit, cut and corrupt: over real sockets, between a test's client and a tiny fake broker.
Edited responses of every API and version, without sockets."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from broker.wire import codec, messages
from broker.wire.errors import ErrorCode
from chaos.toxiproxy.calls import InvalidRequest
from chaos.toxiproxy.kafka.apis import API_KEYS
from chaos.toxiproxy.kafka.edits import NothingChanged, Target, edited_response
from chaos.toxiproxy.kafka.fields import MalformedFrame
from chaos.toxiproxy.kafka.subjects import subject_of_frame
from chaos.toxiproxy.states import ProxySpec
from tests.chaos.kafka_samples import VERSIONS_OF, response_frame, sample_response

sys.path.insert(0, str(Path(__file__).parent))
import kafka_frames as kf

slow = pytest.mark.slow  # real processes
COORDINATOR_LOADING, NOT_LEADER, UNKNOWN_TOPIC = 14, 6, 3
LEADER_NOT_AVAILABLE, NOT_COORDINATOR, UNSTABLE = 5, 16, 88


class Probe(kf.FakeKafka):
    """Keeps the bytes of every request as they came."""

    def __init__(self) -> None:
        super().__init__()
        self.raw: list[bytes] = []
        self.torn: list[bytes] = []

    def serve(self, connection: socket.socket) -> None:
        data = b""
        while more := connection.recv(65536):
            data += more
            while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
                size = 4 + int.from_bytes(data[:4], "big")
                frame, data = data[:size], data[size:]
                self.raw.append(frame)
                connection.sendall(self._handle(frame[4:]))
        self.torn.append(data)


@pytest.fixture
def kafka(upstream_factory):
    fake = Probe()
    fake.address = upstream_factory(fake.serve).address
    return fake


@pytest.fixture
def toxiproxy(embedded_server, kafka):
    client = embedded_server.client()
    client.create(ProxySpec(name="edits", upstream=kafka.address))
    yield client
    client.delete("edits")
    client.close()


def connect(toxiproxy) -> socket.socket:
    host, _, port = toxiproxy.proxy("edits").listen.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def produce_answer(connection: socket.socket) -> tuple[int, int, int]:
    correlation_id, message = codec.decode_response(0, 9, kf.read_frame(connection))
    partition = message.responses[0].partition_responses[0]
    return correlation_id, int(partition.error_code), int(partition.base_offset)


def counters(toxiproxy, kind: str) -> dict[str, int]:
    return toxiproxy.toxic("edits", f"{kind}_downstream").counters


@slow
def test_a_delayed_response_holds_back_the_later_ones_of_its_connection(toxiproxy, kafka):
    toxiproxy.add_toxic("edits", "kafka_delay_response", {"skip": 1, "delay_ms": 500})
    with connect(toxiproxy) as connection:
        started = time.monotonic()
        for number in (1, 2, 3):
            connection.sendall(kf.produce_frame(9, number))
            if number == 1:
                assert produce_answer(connection)[0] == 1
        assert [produce_answer(connection)[0] for _ in range(2)] == [2, 3]
        assert time.monotonic() - started >= 0.5
    assert counters(toxiproxy, "kafka_delay_response") == {"matched": 3, "acted": 1}


@slow
def test_a_delayed_response_holds_back_no_other_connection(toxiproxy, kafka):
    # The test does not wait for the delay, which is much longer than a busy host takes for the answer.
    toxiproxy.add_toxic("edits", "kafka_delay_response", {"skip": 1, "delay_ms": 600_000})
    with connect(toxiproxy) as connection, connect(toxiproxy) as other:
        connection.sendall(kf.produce_frame(9, 1))
        assert produce_answer(connection)[0] == 1
        connection.sendall(kf.produce_frame(9, 2))
        kafka.wait_appended(2)  # so the toxic has met it
        other.sendall(kf.produce_frame(9, 9))
        assert produce_answer(other)[0] == 9
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(1)
    assert counters(toxiproxy, "kafka_delay_response") == {"matched": 3, "acted": 1}


@slow
def test_an_edited_response_lies_about_an_append(toxiproxy, kafka):
    toxiproxy.add_toxic("edits", "kafka_edit_response", {"error_code": NOT_LEADER, "topic": kf.TOPIC})
    with connect(toxiproxy) as connection:
        connection.sendall(kf.produce_frame(9, 1))
        assert produce_answer(connection)[:2] == (1, NOT_LEADER)
        connection.sendall(kf.produce_frame(9, 2))
        assert produce_answer(connection) == (2, 0, 3)
    assert [item[0] for item in kafka.appended] == [1, 2]


@slow
def test_throttling_is_told_and_nothing_else_changes(toxiproxy, kafka):
    toxiproxy.add_toxic("edits", "kafka_edit_response", {"throttle_ms": 700})
    with connect(toxiproxy) as connection:
        connection.sendall(kf.produce_frame(9, 1))
        _, message = codec.decode_response(0, 9, kf.read_frame(connection))
    assert messages.to_ms(message.throttle_time) == 700
    assert int(message.responses[0].partition_responses[0].error_code) == 0


@slow
def test_a_hidden_topic_is_unknown_and_comes_back(toxiproxy, kafka):
    toxiproxy.add_toxic("edits", "kafka_hide_topic", {"topic": kf.TOPIC})
    with connect(toxiproxy) as connection:
        seen = []
        for number in (1, 2):
            connection.sendall(kf.metadata_frame(number))
            _, message = codec.decode_response(3, 12, kf.read_frame(connection))
            seen.append((int(message.topics[0].error_code), len(message.topics[0].partitions)))
    assert seen == [(UNKNOWN_TOPIC, 0), (0, 1)]


@slow
@pytest.mark.parametrize("at_byte", [1, 4, 20, 10_000])
def test_a_request_cut_at_a_byte_reaches_the_broker_torn_and_ends_the_connection(toxiproxy, kafka, at_byte):
    toxiproxy.add_toxic("edits", "kafka_cut_frame", {"skip": 1, "at_byte": at_byte})
    frame = kf.produce_frame(9, 2)
    with connect(toxiproxy) as connection:
        connection.sendall(kf.produce_frame(9, 1))
        assert produce_answer(connection)[0] == 1
        connection.sendall(frame + kf.produce_frame(9, 3))
        with contextlib.suppress(ConnectionResetError):  # it had sent more than was read
            assert kf.read_frame(connection) == b""
    deadline = time.monotonic() + 60
    while not kafka.torn and time.monotonic() < deadline:
        time.sleep(0.01)
    assert kafka.torn == [frame[: min(at_byte, len(frame) - 1)]]
    assert [item[0] for item in kafka.appended] == [1]


@slow
def test_a_response_cut_at_a_byte_was_an_append(toxiproxy, kafka):
    toxiproxy.add_toxic("edits", "kafka_cut_frame", {"at_byte": 10, "frame": "response"})
    with connect(toxiproxy) as connection:
        connection.sendall(kf.produce_frame(9, 1))
        data = b""
        while more := connection.recv(100):
            data += more
    assert len(data) == 10
    assert [item[0] for item in kafka.appended] == [1]


@slow
def test_a_corrupted_batch_differs_in_one_bit_of_its_records(toxiproxy, kafka):
    toxiproxy.add_toxic("edits", "kafka_corrupt_batch", {})
    frame = kf.produce_frame(9, 1, crc=77)
    with connect(toxiproxy) as connection:
        connection.sendall(frame)
        produce_answer(connection)
    [arrived] = kafka.raw
    different = [place for place, (left, right) in enumerate(zip(frame, arrived, strict=True)) if left != right]
    assert len(different) == 1
    assert frame[different[0]] ^ arrived[different[0]] == 1
    assert frame[different[0] - 2 : different[0] + 1] == b"ppp"  # inside the records, not behind them


@slow
def test_only_requests_of_the_client_topic_and_partition_are_meant(toxiproxy, kafka):
    attributes = {"error_code": NOT_LEADER, "topic": kf.TOPIC, "partition": 1, "client_id": "c1", "count": 0}
    toxiproxy.add_toxic("edits", "kafka_edit_response", attributes)
    with connect(toxiproxy) as connection:
        for number, (partition, client) in enumerate([(0, "c1"), (1, "c2"), (1, "c1")], start=1):
            connection.sendall(kf.produce_frame(9, number, partitions=(partition,), client_id=client))
        assert [produce_answer(connection)[:2] for _ in range(3)] == [(1, 0), (2, 0), (3, NOT_LEADER)]


@slow
@pytest.mark.parametrize(
    ("kind", "attributes", "problem"),
    [
        ("kafka_edit_response", {}, "changes nothing"),
        ("kafka_corrupt_batch", {"api": "Fetch"}, "expected one of Produce"),
        ("kafka_delay_response", {"api": "Prduce"}, "expected one of"),
    ],
)
def test_settings_that_can_do_nothing_are_refused(toxiproxy, kind, attributes, problem):
    with pytest.raises(InvalidRequest, match=problem):
        toxiproxy.add_toxic("edits", kind, attributes)


def _encoded(api: str, version: int, **values: object) -> bytes:
    key = API_KEYS[api]
    return kf.frame(codec.encode_response(key, version, 5, messages.response(key, version, **values)))


def test_an_error_goes_to_the_top_where_there_are_no_entries():
    frame = _encoded("InitProducerId", 4, producer_id=7, producer_epoch=0)
    edited = edited_response(frame, api_key=22, version=4, names={}, error_code=COORDINATOR_LOADING)
    correlation_id, message = codec.decode_response(22, 4, edited[4:])
    assert (correlation_id, int(message.error_code)) == (5, COORDINATOR_LOADING)
    assert int.from_bytes(edited[:4], "big") == len(edited) - 4


def test_an_error_goes_to_the_partition_that_is_meant():
    partitions = [{"partition_index": index, "leader_id": 1, "leader_epoch": 1} for index in (0, 1)]
    topics = [{"name": name, "topic_id": kf.TOPIC_ID, "partitions": partitions} for name in ("a", "b")]
    frame = _encoded("Metadata", 12, brokers=[], topics=topics)
    edited = edited_response(
        frame, api_key=3, version=12, names={}, error_code=5, target=Target(topic="b", partition=1)
    )
    _, message = codec.decode_response(3, 12, edited[4:])
    found = {(str(t.name), int(p.partition_index)): int(p.error_code) for t in message.topics for p in t.partitions}
    assert found == {("a", 0): 0, ("a", 1): 0, ("b", 0): 0, ("b", 1): 5}


def test_partitions_of_any_request_are_found():
    entry = {"partition": 3, "current_leader_epoch": -1, "fetch_offset": 0, "log_start_offset": -1,
             "partition_max_bytes": 1}  # fmt: skip
    message = messages.request(
        1, 12, max_wait=1, min_bytes=1, max_bytes=1, topics=[{"topic": "t", "partitions": [entry]}]
    )
    frame = kf.frame(codec.encode_request(1, 12, 9, "c", message))
    assert subject_of_frame(frame, {}).partitions == {("t", 3)}
    assert subject_of_frame(kf.metadata_frame(1), {}).partitions == set()


@pytest.mark.parametrize("frame", [b"\x00\x00\x00\x04\x00\x00\x00\x05", b"\x00\x00\x00\x08" + b"\xff" * 8])
def test_what_cannot_be_read_is_left_alone(frame):
    with pytest.raises(MalformedFrame):
        edited_response(frame, api_key=3, version=12, names={}, error_code=5)


def edited(api: str, version: int, response: object, code: int, target: Target | None = None) -> Any:
    """What the client reads."""
    key = API_KEYS[api]
    frame = edited_response(
        response_frame(key, version, response), api_key=key, version=version, names={}, error_code=code,
        target=target or Target(),
    )  # fmt: skip
    return codec.decode_response(key, version, frame[4:])[1]


def codes_in(value: Any) -> list[int]:
    """The error codes of a message, none left out."""
    if is_dataclass(value):
        return [code for field in fields(value) for code in codes_in(getattr(value, field.name))]
    if isinstance(value, tuple):
        return [code for each in value for code in codes_in(each)]
    return [int(value)] if isinstance(value, ErrorCode) else []


@pytest.mark.parametrize("api", VERSIONS_OF)
def test_an_error_reaches_the_client_in_every_api_and_version(api: str) -> None:
    for key, version in VERSIONS_OF[api]:
        for code in (COORDINATOR_LOADING, NOT_LEADER):
            message = edited(api, version, sample_response(key, version), code)
            assert set(codes_in(message)) <= {0, code}, version
            assert code in codes_in(message), version


def test_an_entry_with_an_error_has_no_result() -> None:
    produced = edited("Produce", 9, sample_response(0, 9), NOT_LEADER)
    assert {part.base_offset for topic in produced.responses for part in topic.partition_responses} == {-1}
    fetched = edited("Fetch", 12, sample_response(1, 12), NOT_LEADER).responses[1].partitions[1]
    assert (fetched.partition_index, fetched.high_watermark, bytes(fetched.records)) == (2, -1, b"")
    joined = edited("JoinGroup", 9, sample_response(11, 9), COORDINATOR_LOADING)
    assert (joined.generation_id, joined.leader, joined.members, joined.member_id) == (-1, "", (), "member_id-0")
    synced = edited("SyncGroup", 5, sample_response(14, 5), COORDINATOR_LOADING)
    assert bytes(synced.assignment) == b""
    begun = edited("InitProducerId", 5, sample_response(22, 5), COORDINATOR_LOADING)
    assert (begun.producer_id, begun.producer_epoch) == (-1, -1)
    found = edited("FindCoordinator", 6, sample_response(10, 6), COORDINATOR_LOADING).coordinators[0]
    assert (found.key, found.node_id, found.host, found.port) == ("key-0", -1, "", -1)
    offsets = edited("ListOffsets", 9, sample_response(2, 9), NOT_LEADER).topics[0].partitions[0]
    assert (offsets.partition_index, offsets.offset, offsets.timestamp) == (1, -1, -1)


def test_no_error_leaves_the_results() -> None:
    response = sample_response(0, 9)
    assert edited("Produce", 9, response, 0) == response


def test_a_topic_that_fails_has_no_partitions_and_a_partition_without_leader_stays() -> None:
    unknown = edited("Metadata", 12, sample_response(3, 12), UNKNOWN_TOPIC, Target(topic="name-1"))
    assert [(int(topic.error_code), len(topic.partitions)) for topic in unknown.topics] == [(0, 2), (UNKNOWN_TOPIC, 0)]
    leaderless = edited("Metadata", 12, sample_response(3, 12), LEADER_NOT_AVAILABLE, Target(partition=1))
    assert [[int(part.error_code) for part in topic.partitions] for topic in leaderless.topics] == [[5, 0], [5, 0]]
    assert {int(topic.error_code) for topic in leaderless.topics} == {0}


def test_only_the_group_that_is_meant_fails() -> None:
    message = edited("OffsetFetch", 9, sample_response(9, 9), COORDINATOR_LOADING, Target(group="group_id-1"))
    assert [(int(group.error_code), len(group.topics)) for group in message.groups] == [(0, 2), (14, 0)]
    message = edited("OffsetFetch", 9, sample_response(9, 9), UNSTABLE, Target(group="group_id-1", partition=2))
    assert codes_in(message.groups[0]) == [0] * 5
    assert [int(part.error_code) for topic in message.groups[1].topics for part in topic.partitions] == [0, 88, 0, 88]
    message = edited("FindCoordinator", 6, sample_response(10, 6), COORDINATOR_LOADING, Target(group="key-1"))
    assert [int(each.error_code) for each in message.coordinators] == [0, 14]
    message = edited("DescribeConfigs", 4, sample_response(32, 4), UNKNOWN_TOPIC, Target(topic="resource_name-1"))
    assert [int(each.error_code) for each in message.results] == [0, UNKNOWN_TOPIC]


def test_only_the_transaction_that_is_meant_fails() -> None:
    target = Target(transactional_id="transactional_id-1")
    message = edited("AddPartitionsToTxn", 5, sample_response(24, 5), NOT_COORDINATOR, target)
    assert [set(codes_in(each)) for each in message.results_by_transaction] == [{0}, {NOT_COORDINATOR}]


def test_a_response_without_an_entry_that_is_meant_does_not_change() -> None:
    for api, target in (("Fetch", Target(topic="other")), ("OffsetFetch", Target(group="other"))):
        with pytest.raises(NothingChanged):
            edited(api, 9, sample_response(API_KEYS[api], 9), NOT_LEADER if api == "Fetch" else 14, target)
    with pytest.raises(NothingChanged):
        edited("Fetch", 12, sample_response(1, 12, 0), NOT_LEADER)
    with pytest.raises(NothingChanged):
        frame = response_frame(12, 0, sample_response(12, 0))
        edited_response(frame, api_key=12, version=0, names={}, throttle_ms=5)
