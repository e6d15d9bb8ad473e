"""Addresses in responses, in every version, against broker.wire's codec; and that no response leaks one."""

from __future__ import annotations

import random
import socket
import struct
import sys
from pathlib import Path

import pytest

from broker.wire import codec, messages
from chaos.toxiproxy.calls import InvalidRequest
from chaos.toxiproxy.kafka import addresses
from chaos.toxiproxy.kafka.fields import MalformedFrame
from chaos.toxiproxy.states import ProxySpec

sys.path.insert(0, str(Path(__file__).parent))
import kafka_frames as kf

MAPPED = {("real-1", 9092): ("127.0.0.1", 40001), ("real-2", 9093): ("127.0.0.1", 40002)}
REAL = [("real-1", 9092), ("real-2", 9093), ("elsewhere", 1)]
SHOWN = [("127.0.0.1", 40001), ("127.0.0.1", 40002), ("elsewhere", 1)]
METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER, PRODUCE, FETCH, SHARE_FETCH, SHARE_ACKNOWLEDGE = 3, 10, 60, 0, 1, 78, 79


def brokers(key="node_id"):
    return [{key: number, "host": host, "port": port, "rack": "r"} for number, (host, port) in enumerate(REAL)]


def endpoints():
    return [{"node_id": number, "host": host, "port": port, "rack": None} for number, (host, port) in enumerate(REAL)]


def topics_of_metadata(version):
    partition = {"partition_index": 0, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1], "offline_replicas": []}
    topic = {"name": kf.TOPIC, "partitions": [partition]}
    return [topic | ({"topic_id": kf.TOPIC_ID} if version >= 10 else {})]


def response(api_key, version):
    if api_key == METADATA:
        values = {"brokers": brokers(), "topics": topics_of_metadata(version), "controller_id": 1, "cluster_id": "c"}
        if version < 2:
            values.pop("cluster_id")
        if version < 1:
            values.pop("controller_id")
            values["brokers"] = [{k: v for k, v in entry.items() if k != "rack"} for entry in brokers()]
        if version < 5:
            values["topics"][0]["partitions"][0].pop("offline_replicas")
    elif api_key == FIND_COORDINATOR and version >= 4:
        found = [
            {"key": f"g{n}", "node_id": n, "host": h, "port": p, "error_code": 0, "error_message": ""}
            for n, (h, p) in enumerate(REAL)
        ]
        values = {"coordinators": found}
    elif api_key == FIND_COORDINATOR:
        values = {"error_code": 0, "node_id": 1, "host": REAL[0][0], "port": REAL[0][1]}
    elif api_key == DESCRIBE_CLUSTER:
        values = {"error_code": 0, "cluster_id": "c", "controller_id": 1, "brokers": brokers("broker_id")}
    elif api_key == PRODUCE:
        partition = {"index": 3, "error_code": 6, "base_offset": -1, "error_message": "moved"}
        topic = {"partition_responses": [partition]} | (
            {"topic_id": kf.TOPIC_ID} if version >= 13 else {"name": kf.TOPIC}
        )
        values = {"responses": [topic], "node_endpoints": endpoints()}
    elif api_key in (SHARE_FETCH, SHARE_ACKNOWLEDGE):
        partition = {
            "partition_index": 3, "error_code": 6, "error_message": "moved",
            "current_leader": {"leader_id": 2, "leader_epoch": 9},
        }  # fmt: skip
        if api_key == SHARE_FETCH:
            partition |= {
                "acknowledge_error_code": 0,
                "records": b"x" * 100,
                "acquired_records": [{"first_offset": 1, "last_offset": 4, "delivery_count": 2}],
            }
        values = {"error_code": 0, "responses": [{"topic_id": kf.TOPIC_ID, "partitions": [partition]}]}
        values["node_endpoints"] = endpoints()
        if api_key == SHARE_FETCH or version >= 2:
            values["acquisition_lock_timeout"] = 5
    else:
        partition = {"partition_index": 3, "error_code": 6, "high_watermark": 7, "records": b"x" * 100}
        values = {
            "error_code": 0,
            "session_id": 5,
            "responses": [{"topic_id": kf.TOPIC_ID, "partitions": [partition]}],
            "node_endpoints": endpoints(),
        }
    return messages.response(api_key, version, **values)


def seen(message):
    for name in ("brokers", "coordinators", "node_endpoints"):
        entries = getattr(message, name, None)
        if entries:
            return [(str(entry.host), int(entry.port)) for entry in entries]
    return [(str(message.host), int(message.port))]


CASES = [
    (api_key, version)
    for api_key, versions in {
        METADATA: range(14), FIND_COORDINATOR: range(7), DESCRIBE_CLUSTER: range(3), PRODUCE: range(10, 14),
        FETCH: range(16, 19), SHARE_FETCH: range(1, 3), SHARE_ACKNOWLEDGE: range(1, 3),
    }.items()
    for version in versions
]  # fmt: skip


@pytest.mark.parametrize(("api_key", "version"), CASES)
def test_addresses_are_replaced_and_nothing_else_in_every_version(api_key, version):
    try:
        message = response(api_key, version)
    except NotImplementedError:
        pytest.fail(f"the wire types have no api {api_key} version {version}")
    frame = kf.frame(codec.encode_response(api_key, version, 77, message))
    assert addresses.carries_addresses(api_key, version)
    changed = addresses.rewritten(frame, api_key, version, MAPPED)
    assert struct.unpack(">i", changed[:4])[0] == len(changed) - 4
    correlation_id, decoded = codec.decode_response(api_key, version, changed[4:])
    assert correlation_id == 77
    shown = seen(decoded)
    assert shown == (SHOWN if len(shown) > 1 else SHOWN[:1])
    inverse = {shown_as: real for real, shown_as in MAPPED.items()}
    assert addresses.rewritten(changed, api_key, version, inverse) == frame, "nothing else has changed"
    assert addresses.rewritten(frame, api_key, version, {}) == frame


def test_versions_that_are_not_known_and_broken_frames_are_refused_and_never_pass():
    frame = kf.frame(codec.encode_response(METADATA, 12, 1, response(METADATA, 12)))
    with pytest.raises(MalformedFrame, match="known up to 13"):
        addresses.rewritten(frame, METADATA, 14, MAPPED)
    source = random.Random(3)
    for _ in range(2_000):
        damaged = bytearray(frame)
        for _ in range(source.randint(1, 4)):
            damaged[source.randrange(4, len(damaged))] = source.randrange(256)
        cut = bytes(damaged[: source.randint(4, len(damaged))])
        try:
            addresses.rewritten(cut, METADATA, 12, MAPPED)
        except MalformedFrame:
            continue  # nothing else may be raised


def metadata_answer(connection):
    while data := kf.read_frame(connection):
        version, correlation_id = struct.unpack(">hi", data[2:8])
        message = response(METADATA, min(version, 13))
        connection.sendall(kf.frame(codec.encode_response(METADATA, min(version, 13), correlation_id, message)))


def ask(address, version):
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        body = struct.pack(">hhih", METADATA, version, 9, -1) + (b"\0" if version >= 9 else b"") + b"\0" * 8
        connection.sendall(struct.pack(">i", len(body)) + body)
        size = connection.recv(4, socket.MSG_WAITALL)
        return connection.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL) if size else b""


@pytest.mark.slow
def test_a_proxy_shows_the_mapped_addresses_and_ends_what_it_cannot_read(embedded_server, upstream_factory):
    client = embedded_server.client()
    mapped = {f"{h}:{p}": f"{a}:{b}" for (h, p), (a, b) in MAPPED.items()}
    upstream = upstream_factory(metadata_answer).address
    listen = client.create(ProxySpec(name="shown", upstream=upstream, kafka_addresses=mapped)).listen
    try:
        _, decoded = codec.decode_response(METADATA, 12, ask(listen, 12))
        assert seen(decoded) == SHOWN
        assert ask(listen, 14) == b"", "closed, rather than an address that would lead past the proxy"
        with pytest.raises(InvalidRequest, match="must be host:port"):
            client.create(ProxySpec(name="wrong", upstream=upstream, kafka_addresses={"real-1": "127.0.0.1:1"}))
        with pytest.raises(InvalidRequest, match="has no field 'ca'"):
            client.create(ProxySpec(name="wrong", upstream=upstream, upstream_tls={"ca": "x"}))
        with pytest.raises(InvalidRequest, match="No such file"):
            client.create(ProxySpec(name="wrong", upstream=upstream, upstream_tls={"ca_file": "/no/such/file"}))
    finally:
        client.delete("shown")
        client.close()
