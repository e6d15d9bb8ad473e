"""Valid requests at extremes: every API and version is among them, and real brokers stand a seeded part of them."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import pytest

from broker.sim.fuzz_brokers import Brokers, PeerFuzzError, Sent
from broker.sim.fuzz_extremes import World, extreme_frame
from broker.sim.fuzz_peers import Found, look_at, main, run_block
from broker.wire.apis import APIS
from broker.wire.codec import decode_request, decode_request_header
from broker.wire.errors import RemoteProtocolError
from tests.amount import examples

REQUESTS = examples(400)


@pytest.mark.thorough
def test_every_request_of_every_version_is_among_them_and_is_valid() -> None:
    rng, world = random.Random(1), World()
    seen: set[tuple[int, int]] = set()
    refused_are_big: list[bool] = []  # only for being too much
    for _ in range(6_000):
        kind, listener, frame, is_big = extreme_frame(world, rng)
        header = decode_request_header(frame[4:])
        assert kind.startswith(APIS[header.api_key].key.name)  # type: ignore[index]  # an int finds its IntEnum key
        assert listener in APIS[header.api_key].listeners  # type: ignore[index]
        try:
            decode_request(frame[4:])
        except RemoteProtocolError:
            refused_are_big.append(is_big)
        seen.add((header.api_key, header.api_version))
    wanted = {(int(api.key), each) for api in APIS.values() for each in range(api.min_version, api.max_version + 1)}
    assert seen == wanted
    assert all(refused_are_big)


def test_a_block_is_made_from_its_number_alone() -> None:
    first, second = (
        [extreme_frame(World(), rng)[2] for _ in range(50)] for rng in (random.Random("7"), random.Random("7"))
    )
    assert first == second


@pytest.mark.slow
def test_a_broker_stands_valid_requests_at_their_extremes() -> None:
    found = run_block(1, REQUESTS)
    assert found.requests == REQUESTS
    assert found.answered > REQUESTS // 2
    assert not found.defects


@pytest.mark.slow
@pytest.mark.long
def test_blocks_run_beside_one_another_and_are_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state.json"
    arguments = ["--requests", "80", "--per-block", "40", "--jobs", "2", "--state", str(state), "--first-block", "5"]
    assert main(arguments) == 0
    assert "80 requests of" in capsys.readouterr().out
    assert sorted(json.loads(state.read_text())) == ["5", "6"]
    assert main(arguments) == 0
    assert not capsys.readouterr().out


@pytest.mark.slow
def test_a_death_and_a_stall_are_seen(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path, 1)
    try:
        brokers.start()
        kind, listener, frame, _ = extreme_frame(brokers.set_up(), random.Random(3))
        sent, found = Sent(kind, 1, listener, frame, is_big=False), Found()
        look_at(found, sent, "answered", busy_ms=300.0)
        assert sum(found.defects.values()) == 1
        brokers.signal(1, signal.SIGKILL)
        assert brokers.send(sent) == "closed"
        with pytest.raises(PeerFuzzError, match="broker 1 ended with -9"):
            brokers.check_alive()
    finally:
        brokers.kill()
