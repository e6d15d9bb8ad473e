"""Reading and writing of Produce frames, against broker.wire's codec; frame boundaries at every cut."""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
from pathlib import Path

import pytest

from broker.wire import codec
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response
from chaos.toxiproxy.kafka import produce
from chaos.toxiproxy.kafka.decisions import count_late_answer
from chaos.toxiproxy.kafka.fields import MalformedFrame
from chaos.toxiproxy.kafka.frames import FRAME_BYTES_MAX, FrameSplitter
from chaos.toxiproxy.toxic import Toxic
from chaos.toxiproxy.toxics.kafka_hold_request import SPEC

sys.path.insert(0, str(Path(__file__).parent))
import kafka_frames as kf

VERSIONS = range(produce.VERSION_MIN, produce.VERSION_MAX + 1)
NAMES = {kf.TOPIC_ID.bytes: kf.TOPIC}


@pytest.mark.parametrize("version", VERSIONS)
def test_request_is_read_as_it_was_encoded(version):
    request = produce.read_request(
        kf.produce_frame(version, 77, crc=0xFEDCBA98, records=5, partitions=(2, 4), acks=1, client_id="me"), NAMES
    )
    assert (request.api_version, request.correlation_id, request.client_id, request.acks) == (version, 77, "me", 1)
    assert [(b.topic, b.partition, b.crc, b.records) for b in request.batches] == [
        (kf.TOPIC, 2, 0xFEDCBA98, 5),
        (kf.TOPIC, 4, 0xFEDCBA98, 5),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_response_is_read_as_it_was_encoded(version):
    frame = kf.produce_response_frame(version, 5, {0: (0, 1234567890123), 3: (6, -1)})
    results = produce.read_response(frame, version, NAMES)
    assert {key: (r.error_code, r.base_offset) for key, r in results.items()} == {
        (kf.TOPIC, 0): (0, 1234567890123),
        (kf.TOPIC, 3): (6, -1),
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_refusal_is_a_response_that_clients_can_decode(version):
    request = produce.read_request(kf.produce_frame(version, 9, partitions=(0, 1)), NAMES)
    correlation_id, message = codec.decode_response(0, version, produce.refusal_frame(request, 6)[4:])
    (topic,) = message.responses
    assert correlation_id == 9
    assert [(int(p.index), int(p.error_code), int(p.base_offset)) for p in topic.partition_responses] == [
        (0, 6, -1),
        (1, 6, -1),
    ]
    assert topic.topic_id == kf.TOPIC_ID if version >= 13 else topic.name == kf.TOPIC


def test_topic_names_are_learnt_from_metadata():
    names = produce.TopicNames()
    produce.learn_topic_ids(kf.metadata_response_frame(1), 12, names)
    assert names.by_id == NAMES


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_cut_or_changed_frame_is_malformed_or_read_but_never_anything_else(version):
    frame = kf.produce_frame(version, 1)
    rng = random.Random(version)
    for size in range(8, len(frame)):
        with contextlib.suppress(MalformedFrame):
            produce.read_request(frame[:size], NAMES)
    for _ in range(500):
        changed = bytearray(frame)
        changed[rng.randrange(8, len(frame))] = rng.randrange(256)
        with contextlib.suppress(MalformedFrame):
            produce.read_request(bytes(changed), NAMES)


def test_frames_come_whole_however_the_stream_is_cut_and_whenever_reading_begins():
    rng = random.Random(3)
    for _ in range(300):
        frames = [
            len(body).to_bytes(4, "big") + body for body in (rng.randbytes(rng.randrange(1, 40)) for _ in range(8))
        ]
        stream = b"".join(frames)
        cuts = sorted({0, len(stream), *(rng.randrange(len(stream)) for _ in range(rng.randrange(12)))})
        chunks = [stream[a:b] for a, b in itertools.pairwise(cuts)]
        begins_at = rng.randrange(len(chunks))
        splitter, passed, read = FrameSplitter(), b"", []
        for index, chunk in enumerate(chunks):
            if index < begins_at:
                splitter.skim(chunk)
                passed += chunk
                continue
            if index == begins_at:
                splitter.start_reading()
            unread, found = splitter.feed(chunk)
            assert not (unread and read), "nothing passes unread once a frame was read"
            passed += unread
            read += found
        assert passed + b"".join(read) == stream
        assert read == frames[len(frames) - len(read) :]
        first_boundary_reached = sum(map(len, chunks[:begins_at]))
        assert len(read) >= sum(1 for i in range(8) if sum(map(len, frames[:i])) >= first_boundary_reached)


@pytest.mark.parametrize(
    "head", [b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\n", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff"]
)
def test_what_is_not_kafka_passes_unread(head):
    assert int.from_bytes(head[:4], "big", signed=True) not in range(1, FRAME_BYTES_MAX + 1)
    splitter = FrameSplitter()
    splitter.start_reading()
    unread, found = splitter.feed(head)
    assert splitter.is_opaque
    assert unread + b"".join(found) == head
    assert splitter.feed(b"more") == (b"more", [])


@pytest.mark.parametrize("version", [1, 3, 5])
def test_the_error_of_a_late_end_txn_is_read_at_its_place(version):
    message = response(ApiKey.END_TXN, version, error_code=ErrorCode.producer_fenced)
    frame = b"".join(bytes(part) for part in codec.encode_response(ApiKey.END_TXN, version, 9, message))
    toxic = Toxic(name="hold", spec=SPEC, stream="downstream", toxicity=1.0, attributes={})
    header = produce.RequestHeader(api_key=ApiKey.END_TXN, api_version=version, correlation_id=9)
    count_late_answer(toxic, header, frame)
    assert toxic.counters == {f"answered with error {int(ErrorCode.producer_fenced)}": 1}
