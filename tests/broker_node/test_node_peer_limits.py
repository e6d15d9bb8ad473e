"""No peer ends or stalls a broker: requests that did, sent to a real process. Work is measured in the broker's own CPU
time, which no busy host changes."""

from __future__ import annotations

import resource
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_helper import Cluster
from wire_helper import ask

from broker.wire.apis import ApiKey
from broker.wire.codec import encode_request
from broker.wire.compression import compress
from broker.wire.errors import ErrorCode
from broker.wire.messages import request
from broker.wire.record_filter import with_body
from broker.wire.records import BATCH_OVERHEAD_BYTES, CodecId, encode_batch, parse_batch_header
from tests.patience import wait_until

pytestmark = pytest.mark.slow
MIB = 1 << 20
IDLE_MS = 4_000  # longer than a busy host keeps a client from its next request
UNREAD_BYTES = 60 * MIB
TICKS_A_SECOND = 100


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"harness.unread.answer.bytes": UNREAD_BYTES}
    with Cluster(tmp_path_factory.mktemp("limits"), brokers=1, settings=settings) as running:
        wait_until(lambda: _make_topics(running), "topics")
        yield running


def _make_topics(cluster: Cluster) -> bool:
    plain = {"num_partitions": 1, "replication_factor": 1, "assignments": []}
    compact = [{"name": "cleanup.policy", "value": "compact"}]
    topics = [{"name": "plain", "configs": [], **plain}, {"name": "compacted", "configs": compact, **plain}]
    answer = ask(_port(cluster), ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=5_000, validate_only=False)
    return all(each.error_code in (ErrorCode.none, ErrorCode.topic_already_exists) for each in answer.topics)


@pytest.fixture(autouse=True)
def it_lives_and_answers(cluster: Cluster) -> Iterator[None]:
    yield
    assert cluster.processes[1].poll() is None, cluster.stderr(1)[-2_000:]
    _probe(cluster)
    assert "handler_failed" not in cluster.stderr(1)
    assert "controller_request_failed" not in cluster.stderr(1)


def _port(cluster: Cluster, listener: str = "DIRECT") -> int:
    return cluster.ports[1][listener]


def _probe(cluster: Cluster, listener: str = "DIRECT") -> None:
    names = {"client_software_name": "t", "client_software_version": "1"}
    assert ask(_port(cluster, listener), ApiKey.API_VERSIONS, 3, **names).error_code is ErrorCode.none


def _cpu_s(cluster: Cluster) -> float:
    fields = Path(f"/proc/{cluster.processes[1].pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def _resident_bytes(cluster: Cluster) -> int:
    return int(Path(f"/proc/{cluster.processes[1].pid}/statm").read_text().split()[1]) * 4096


def _frame(api_key: int, version: int, **fields: object) -> bytes:
    return b"".join(encode_request(api_key, version, 1, "test", request(api_key, version, **fields)))


def _produce(topic: str, batch: bytes) -> dict[str, Any]:
    partition = {"index": 0, "records": batch}
    data = [{"name": topic, "partition_data": [partition]}]
    return {"transactional_id": None, "acks": 1, "timeout": 5_000, "topic_data": data}


def _produced(cluster: Cluster, topic: str, batch: bytes, listener: str = "DIRECT") -> ErrorCode:
    answer = ask(_port(cluster, listener), ApiKey.PRODUCE, 9, **_produce(topic, batch))
    code: ErrorCode = answer.responses[0].partition_responses[0].error_code
    return code


def _closes(cluster: Cluster, frame: bytes) -> bool:
    with socket.create_connection(("127.0.0.1", _port(cluster)), timeout=60) as connection:
        try:
            connection.sendall(frame)
            return connection.recv(4) == b""
        except ConnectionError:
            return True


def test_an_error_text_that_does_not_fit_is_cut(cluster: Cluster) -> None:
    name, value = "message.timestamp.type", "\N{SNOWMAN}" * 10_900
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": []}
    topics = [{**topic, "configs": [{"name": name, "value": value}]}]
    for version in (2, 4, 5, 7):
        answer = ask(_port(cluster), ApiKey.CREATE_TOPICS, version, topics=topics, timeout=1, validate_only=False)
        assert answer.topics[0].error_code is ErrorCode.invalid_config
        assert 32_000 < len(answer.topics[0].error_message.encode()) <= 0x7FFF


def test_a_string_that_no_version_could_carry_closes_the_connection(cluster: Cluster) -> None:
    assert _closes(cluster, _raw_flexible_metadata(b"t" * 40_000))


def _raw_flexible_metadata(name: bytes) -> bytes:
    size = len(name) + 1
    varint = bytes((size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14))
    body = struct.pack(">hhih", ApiKey.METADATA, 9, 1, -1) + b"\x00\x02" + varint + name + b"\x00\x00\x00\x00\x00"
    return struct.pack(">i", len(body)) + body


def test_a_batch_of_a_million_records_in_a_thousand_bytes_costs_nothing(cluster: Cluster) -> None:
    one = encode_batch([b""], timestamps_ms=1, keys=[b"k"])
    header = parse_batch_header(encode_batch([b"v"], timestamps_ms=1, codec=CodecId.ZSTD))
    header = header._replace(record_count=1_000_000, last_offset_delta=999_999)
    batch = with_body(header, compress(CodecId.ZSTD, one[BATCH_OVERHEAD_BYTES:] * 1_000_000))
    assert len(batch) < 2_000
    cpu_s, resident = _cpu_s(cluster), _resident_bytes(cluster)
    for topic in ("compacted", "plain"):
        assert _produced(cluster, topic, batch) is ErrorCode.message_too_large
    assert _cpu_s(cluster) - cpu_s < 0.5
    assert _resident_bytes(cluster) - resident < 64 * MIB


def test_a_small_batch_that_unpacks_to_very_much_is_refused(cluster: Cluster) -> None:
    resident = _resident_bytes(cluster)
    for codec in (CodecId.GZIP, CodecId.LZ4, CodecId.ZSTD):
        batch = bytes(encode_batch([bytes(120 * MIB)], timestamps_ms=1, codec=codec, compression_level=9))
        if len(batch) < MIB:
            assert _produced(cluster, "plain", batch) is ErrorCode.message_too_large
    assert _resident_bytes(cluster) - resident < 64 * MIB


def test_naming_a_topic_three_million_times_costs_the_connection(cluster: Cluster) -> None:
    body = struct.pack(">hhih", ApiKey.METADATA, 1, 1, -1) + struct.pack(">i", 3_000_000) + b"\x00\x01t" * 3_000_000
    cpu_s = _cpu_s(cluster)
    assert _closes(cluster, struct.pack(">i", len(body)) + body)
    assert _cpu_s(cluster) - cpu_s < 1.0


def test_a_million_tagged_fields_cost_the_connection(cluster: Cluster) -> None:
    header = struct.pack(">hhih", ApiKey.METADATA, 9, 1, -1)
    tags = b"\xc0\x84\x3d" + b"\x05\x00" * 1_000_000
    for body in (header + tags, header + b"\x00\x01\x00\x00\x00" + tags):
        assert _closes(cluster, struct.pack(">i", len(body)) + body)


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Cluster]:
    """Closes idle connections soon. The others have the default: a busy host would make their connections idle."""
    settings = {"connections.max.idle.ms": IDLE_MS, "harness.unread.answer.bytes": UNREAD_BYTES}
    with Cluster(tmp_path, brokers=1, settings=settings) as running:
        wait_until(lambda: _make_topics(running), "topics")
        yield running


def _fetch_of_40_mib(cluster: Cluster) -> bytes:
    """They are there."""
    for _ in range(40):
        assert _produced(cluster, "plain", bytes(encode_batch([bytes(MIB - 200)], timestamps_ms=1))) is ErrorCode.none
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 40 * MIB}
    topics = [{"topic": "plain", "partitions": [partition]}]
    return _frame(ApiKey.FETCH, 11, max_wait=100, min_bytes=1, max_bytes=40 * MIB, topics=topics)


def test_answers_that_nobody_reads_are_bounded_and_end_with_the_idle_limit(impatient: Cluster) -> None:
    frame = _fetch_of_40_mib(impatient)
    resident, connections = _resident_bytes(impatient), []
    try:
        connection = socket.create_connection(("127.0.0.1", _port(impatient)))
        connections.append(connection)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(frame * 60)
        _probe(impatient)
        grown = _resident_bytes(impatient) - resident
        assert grown < 140 * MIB, f"{grown / MIB:.0f} MiB"  # one answer is built and held: 40 MiB each
        wait_until(lambda: _open_connections(impatient) == 0, "the idle connection is aborted")
    finally:
        for each in connections:
            each.close()


def test_answers_that_nobody_reads_are_bounded_over_all_connections(cluster: Cluster) -> None:
    """Each alone is within its bound: one answer of 40 MiB. Who reads on stays, among many who do not."""
    frame = _fetch_of_40_mib(cluster)
    resident, connections = _resident_bytes(cluster), []
    try:
        for number in range(12):
            connection = socket.socket()
            connections.append(connection)
            # A buffer of a given size does not grow: what the first one reads, the broker sees.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096 if number else 65_536)
            connection.connect(("127.0.0.1", _port(cluster)))
            connection.sendall(frame)
            _probe(cluster)
            _read_on(connections[0])
        grown = _resident_bytes(cluster) - resident
        assert grown < UNREAD_BYTES + 140 * MIB, f"{grown / MIB:.0f} MiB of {12 * 40}"
        assert "answers_unread" in cluster.stderr(1)
        _read_on(connections[0])
    finally:
        for each in connections:
            each.close()


def _read_on(connection: socket.socket, size_bytes: int = 3 * MIB) -> None:
    """More than the kernel holds, so that the broker sees it."""
    connection.settimeout(30)
    while size_bytes > 0:
        piece = connection.recv(size_bytes)
        assert piece, "closed"
        size_bytes -= len(piece)


def _open_connections(cluster: Cluster) -> int:
    port = f":{_port(cluster):04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    established = [line.split() for line in lines if line.split()[3] == "01"]
    return sum(fields[1].endswith(port) for fields in established)


def test_huge_requests_sent_half_block_neither_other_clients_nor_brokers(cluster: Cluster) -> None:
    half = struct.pack(">i", 100 * MIB - 1) + struct.pack(">hhih", ApiKey.PRODUCE, 9, 1, -1) + bytes(70_000)
    connections = []
    try:
        for listener in ("DIRECT", "INTERNAL"):
            for _ in range(11):
                connection = socket.create_connection(("127.0.0.1", _port(cluster, listener)))
                connection.sendall(half)
                connections.append(connection)
        batch = bytes(encode_batch([bytes(MIB - 200)], timestamps_ms=1))
        assert _produced(cluster, "plain", batch) is ErrorCode.none
        _probe(cluster, "INTERNAL")
        _probe(cluster, "CONTROLLER")
    finally:
        for each in connections:
            each.close()


def test_connections_beyond_the_descriptors_are_refused_and_files_can_still_be_opened(cluster: Cluster) -> None:
    pid = cluster.processes[1].pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    connections = []
    try:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (1_024, before[1]))
        for listener in ("DIRECT", "INTERNAL"):
            address = ("127.0.0.1", _port(cluster, listener))
            connections += [socket.create_connection(address) for _ in range(600)]
        wait_until(lambda: "connection_refused limit=descriptors" in cluster.stderr(1), "a line about refusals")
        assert len(list(Path(f"/proc/{pid}/fd").iterdir())) < 1_024 - 200
    finally:
        for each in connections:
            each.close()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wait_until(lambda: _make_topics(cluster), "files can be opened")


def test_what_was_written_meanwhile_can_be_read_by_the_next_start(cluster: Cluster) -> None:
    assert cluster.terminate(1) == 0
    cluster.start(1)
    cluster.wait_until_all_are_known()


def test_a_heartbeat_without_a_list_of_directories_is_answered(cluster: Cluster) -> None:
    port = _port(cluster, "CONTROLLER")
    answer = ask(port, ApiKey.BROKER_HEARTBEAT, 2, broker_id=90, broker_epoch=1, offline_log_dirs=None)
    assert answer.error_code is ErrorCode.broker_id_not_registered
