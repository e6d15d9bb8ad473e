"""`harness.tape.play` and `peer`: librdkafka against a tape by hand, and clients that are none."""

from __future__ import annotations

import socket
import struct
import sys
from dataclasses import replace

import pytest

from harness.explore.oracles.oracles import Kind
from harness.explore.trial.history import Delivered
from harness.explore.trial.model import Disturbance, How, Move, Program, Role, Trial
from harness.explore.trial.model import Do as MoveDo
from harness.run.generator.client_runtime import client_program
from harness.tape.model import Do, Frame, Tape
from harness.tape.peer import TapePeer
from harness.tape.play import play
from tests.harness.tapes import CLOSED, PRODUCING, REFUSED, TRIAL, tape

PATIENCE_S = 30.0  # so that a client that is only slow on a busy host is not taken for one that stands still


def played(one: Tape, patience_s: float = PATIENCE_S):  # type: ignore[no-untyped-def]
    program = client_program("confluent", what="be played to")
    return play(one, program.command, program.environment, patience_s=patience_s)


@pytest.mark.slow
def test_a_refused_offset_fetch_stops_librdkafka_and_the_same_peer_without_it_does_not() -> None:
    """librdkafka 5586. The healthy twin reads all its records within the same patience."""
    found = played(tape(REFUSED), 15.0)
    assert found.why_unproved == ""
    assert found.shown is not None
    assert found.shown.kind is Kind.STUCK
    assert found.faulty.met == 1
    delivered = [one for one in found.healthy.history.happened if isinstance(one, Delivered)]
    assert sorted((one.partition, one.offset) for one in delivered) == [(p, o) for p in range(2) for o in range(5)]


@pytest.mark.slow
def test_a_client_that_stands_the_fault_is_not_accused() -> None:
    trial = replace(TRIAL, disturbance=Disturbance(api="OffsetFetch", how=How.CLOSED_BEFORE))
    found = played(replace(tape(CLOSED), trial=trial))
    assert (found.why_unproved, found.faulty.found) == ("", ())
    assert found.faulty.met == 1


@pytest.mark.slow
def test_transactions_and_members_of_a_real_client_find_all_that_they_need_in_the_peer() -> None:
    """librdkafka with a healthy peer. What it would miss there, or take wrongly, every tape would accuse it of."""
    producer = Program(
        name="transactions",
        role=Role.PRODUCER,
        moves=(
            Move(do=MoveDo.BEGIN),
            Move(do=MoveDo.SEND, count=4),
            Move(do=MoveDo.COMMIT_TRANSACTION),
            Move(do=MoveDo.BEGIN),
            Move(do=MoveDo.SEND, count=2),
            Move(do=MoveDo.ABORT_TRANSACTION),
        ),
        properties={"linger.ms": "0"},
        partitions=2,
    )
    writing = replace(tape(*PRODUCING), trial=Trial(program=producer))
    found = played(writing).faulty
    assert (found.history.problem, found.found, found.missing) == ("", (), ())
    assert sum(not one.is_aborted for one in found.history.log) == 4, "what was given up may never have been sent"

    moves = (
        Move(do=MoveDo.SUBSCRIBE),
        Move(do=MoveDo.SUBSCRIBE, member=1),
        Move(do=MoveDo.ARRIVE_ABORTED, count=6),
        Move(do=MoveDo.ARRIVE_COMMITTED, count=6),
        Move(do=MoveDo.READ),
        Move(do=MoveDo.CLOSE),
        Move(do=MoveDo.ARRIVE, count=6),
    )
    properties = {**TRIAL.program.properties, "isolation.level": "read_committed"}
    reading = Trial(program=replace(TRIAL.program, moves=moves, properties=properties))
    two = played(replace(tape(), trial=reading)).faulty
    assert (two.history.problem, two.found, two.missing) == ("", (), ())
    delivered = [one for one in two.history.happened if isinstance(one, Delivered)]
    assert {(one.partition, one.offset) for one in delivered} >= {
        (one.partition, one.offset) for one in two.history.log if not one.is_aborted
    }


@pytest.mark.slow
def test_a_fault_that_the_client_never_meets_proves_nothing() -> None:
    found = played(tape(replace(REFUSED, request=1_000)))
    assert found.why_unproved == "the client never sent request 1000 of OffsetFetch"


@pytest.mark.slow
def test_a_client_that_dies_with_and_without_the_fault_proves_nothing() -> None:
    text = (
        "import json, sys; print(json.dumps(dict(event='ready', protocol=1, client='c', version='1', "
        "can=['subscribe', 'poll', 'commit'], properties={}, lacks={})), flush=True); sys.stdin.readline(); sys.exit(3)"
    )
    found = play(tape(REFUSED), [sys.executable, "-c", text], {})
    assert found.is_unproved
    assert found.shown is None


def talk(peer: TapePeer, data: bytes) -> bytes:
    return talk_to(peer.bootstrap_servers, data)


def talk_to(address: str, data: bytes) -> bytes:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(data)
        return connection.recv(65_536)


def request(api_key: int, version: int, body: bytes = b"") -> bytes:
    frame = struct.pack(">hhih", api_key, version, 42, -1) + body
    return struct.pack(">i", len(frame)) + frame


@pytest.mark.slow
@pytest.mark.parametrize("is_after_work", [False, True])
def test_a_silence_of_some_time_ends_with_the_answer(is_after_work: bool) -> None:
    silent = Frame(api="ApiVersions", version=3, request=1, do=Do.SILENCE, late_ms=100, is_after_work=is_after_work)
    with TapePeer(tape(silent)) as peer:
        answer = talk(peer, request(18, 3, b"\x00\x01\x01\x00"))
        assert struct.unpack(">i", answer[4:8]) == (42,)
        assert peer.first_met_us is not None
        assert peer.spent_us is not None
        assert peer.spent_us > peer.first_met_us, "it was over later than it began"


@pytest.mark.slow
def test_each_broker_of_a_tape_answers_at_its_own_address() -> None:
    brokers = [{"node_id": node, "host": "broker.example", "port": 9092} for node in (1, 2, 3)]
    frames = [
        replace(frame, message={**frame.message, "brokers": brokers}) if frame.api == "Metadata" else frame
        for frame in tape().frames
    ]
    with TapePeer(replace(tape(), frames=tuple(frames))) as peer:
        addresses = peer.bootstrap_servers.split(",")
        assert len(set(addresses)) == 3
        for address in addresses:
            answer = talk_to(address, request(18, 3, b"\x00\x01\x01\x00"))
            assert struct.unpack(">i", answer[4:8]) == (42,)


@pytest.mark.slow
def test_nonsense_ends_its_connection_and_the_peer_goes_on() -> None:
    with TapePeer(tape(REFUSED)) as peer:
        for nonsense in (
            struct.pack(">i", -5),
            struct.pack(">i", 1 << 30),
            b"\0\0\0\4abcd",
            request(3, 12, b"\xff" * 9),
        ):
            assert talk(peer, nonsense) == b""
        assert talk(peer, request(999, 0)) == b""
        answer = talk(peer, request(18, 3, b"\x00\x01\x01\x00"))
        assert struct.unpack(">i", answer[4:8]) == (42,)
        assert "ApiKey 999, 1 times" not in peer.script.missing
        assert peer.script.missing["ApiKey 999"] == 1


@pytest.mark.slow
def test_a_newer_version_of_api_versions_is_answered_as_every_broker_does() -> None:
    with TapePeer(tape(REFUSED)) as peer:
        answer = talk(peer, request(18, 9))
    assert struct.unpack(">ih", answer[4:10]) == (42, 35), "UNSUPPORTED_VERSION, in the layout of version 0"
