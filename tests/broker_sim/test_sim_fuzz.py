"""Bad frames and damaged files: an answer, a closed connection or a named file, and nothing worse."""

from __future__ import annotations

import random

import pytest

from broker.sim.clients import PRODUCE_VERSION
from broker.sim.cluster import EXTERNAL
from broker.sim.fuzz_files import fuzz_files
from broker.sim.fuzz_frames import Target, fuzz_frames
from broker.sim.fuzz_input import damage, random_frame, valid_frame
from broker.sim.plan import TOPIC
from broker.sim.seed_run import virtual_clocks
from broker.wire.apis import APIS, ApiKey
from broker.wire.batch_encoder import encode_batch
from broker.wire.codec import decode_request, encode_request
from broker.wire.errors import ProtocolError, RemoteProtocolError
from broker.wire.framing import FrameReader
from broker.wire.messages import request, request_type
from tests.amount import examples

FRAMES = examples(1_000)  # through a whole broker
DECODED = examples(20_000)  # through the decoders alone
FILES = examples(2_000)


@pytest.mark.slow
def test_a_broker_survives_bad_frames_and_serves_others_meanwhile() -> None:
    result = fuzz_frames(1, FRAMES)
    assert result.frames == FRAMES
    assert result.answered > FRAMES // 10
    assert result.closed > FRAMES // 10


@pytest.mark.thorough
def test_damaged_requests_decode_or_are_refused_as_such() -> None:
    rng = random.Random(1)
    outcomes = {"decoded": 0, "refused": 0}
    for _ in range(DECODED):
        _, frame = random_frame(rng)
        try:
            decode_request(frame[4:])
        except ProtocolError:
            outcomes["refused"] += 1
        else:
            outcomes["decoded"] += 1
    assert min(outcomes.values()) > DECODED // 10


@pytest.mark.thorough
def test_every_request_of_every_version_is_among_them() -> None:
    rng = random.Random(2)
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            frames = (valid_frame(api, version, rng) for _ in range(200))
            frame = next(each for each in frames if each is not None)
            header, message = decode_request(frame[4:])
            assert (header.api_key, header.api_version) == (api.key, version)
            assert type(message) is request_type(api.key, version)


def test_an_array_that_claims_two_billion_elements_takes_no_memory() -> None:
    """kio's native decoder asked for 55 GB and aborted the process."""
    header = b"\x00\x03\x00\x01\x00\x00\x00\x07\xff\xff"  # Metadata version 1
    with pytest.raises(RemoteProtocolError, match="2147483647 elements cannot fit"):
        decode_request(header + b"\x7f\xff\xff\xff")


def test_a_tagged_field_that_nobody_knows_is_skipped() -> None:
    frame = b"\x00\x12\x00\x03\x00\x00\x00\x07\xff\xff\x00" + b"\x02a\x02b" + b"\x01\x63\x03abc"
    header, message = decode_request(frame)
    assert header.api_key == ApiKey.API_VERSIONS
    assert (message.client_software_name, message.client_software_version) == ("a", "b")


def test_a_null_where_there_is_none_is_refused() -> None:
    frame = b"\x00\x12\x00\x03\x00\x00\x00\x07\xff\xff\x00" + b"\x00\x02b\x00"
    with pytest.raises(RemoteProtocolError, match="client_software_name is null"):
        decode_request(frame)


def test_a_claimed_length_takes_no_memory_before_its_bytes_come() -> None:
    reader = FrameReader()
    reader.receive_bytes((100 << 20).to_bytes(4, "big"))
    assert len(reader.writable()) < 1 << 20
    reader = FrameReader()
    payload = bytes(range(256)) * 4096  # a frame of 1 MiB still comes in few pieces
    data, reads = len(payload).to_bytes(4, "big") + payload, 0
    while (frame := reader.next_frame()) is None:
        room = reader.writable()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        reader.written(count)
        data, reads = data[count:], reads + 1
    assert bytes(frame) == payload
    assert reads <= 6


@pytest.mark.thorough
def test_damaged_files_open_or_are_named() -> None:
    result = fuzz_files(1, FILES)
    assert result.files == FILES
    assert result.opened > FILES // 10
    assert result.refused > FILES // 100


def test_damage_changes_something_and_never_grows_without_limit() -> None:
    rng = random.Random(3)
    changed = 0
    for _ in range(200):
        data = bytes(range(100))
        after = bytes(damage(bytearray(data), rng))
        changed += after != data
        assert len(after) <= 100 + 5 * 8
    assert changed > 190


def test_a_log_whose_beginning_was_deleted_is_still_checked() -> None:
    """Frame 40,000 or so of a million: the checker went on to read where DeleteRecords had removed the records."""
    batch = encode_batch([b"a", b"b"], timestamps_ms=1_700_000_000_000)
    topic_data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}]
    produce = request(
        ApiKey.PRODUCE, PRODUCE_VERSION, transactional_id=None, acks=-1, timeout=300, topic_data=topic_data
    )
    partitions = [{"partition_index": 0, "offset": -1}]
    delete = request(ApiKey.DELETE_RECORDS, 2, topics=[{"name": TOPIC, "partitions": partitions}], timeout=300)
    with virtual_clocks():
        target = Target(1)
        try:
            for key, version, message in (
                (ApiKey.PRODUCE, PRODUCE_VERSION, produce),
                (ApiKey.DELETE_RECORDS, 2, delete),
                (ApiKey.PRODUCE, PRODUCE_VERSION, produce),
            ):
                frame = b"".join(encode_request(key, version, 1, "test", message))
                assert target.send(EXTERNAL, frame) == "answered"
                assert target.check(strict=True)
            assert [each.base_offset for each in target.world.partitions.mirror(1, (TOPIC, 0))] == [0, 2]
        finally:
            target.dispose()
