"""Who gets in at the master's port: hosts with the key and the same version. Whatever others send, it goes on."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq

from harness.clusters.ports import free_port
from tests.patience import wait_until
from tests.workloads.load_hosts import Agent, Hub, keys
from workloads.hosts.keys import KeyFileError, LinkKey, new_keys, read_key, write_keys


def test_keys_are_for_their_owner_alone_and_are_not_overwritten(tmp_path: Path) -> None:
    master, worker = write_keys(tmp_path)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (master, worker)} == {0o600}
    assert read_key(master, "master").peer_public == read_key(worker, "worker").public
    with pytest.raises(FileExistsError):
        write_keys(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", "x" * 5000, '{"kind": "kafka-harness load key 1"}'])
def test_what_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(KeyFileError):
        read_key(path, "master")


def test_a_key_that_others_can_read_or_of_the_other_role_is_refused(tmp_path: Path) -> None:
    master, worker = write_keys(tmp_path)
    with pytest.raises(KeyFileError, match="expected that of the worker"):
        read_key(master, "worker")
    os.chmod(worker, 0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        read_key(worker, "worker")


def test_no_secret_is_in_what_a_key_shows() -> None:
    key = new_keys()[0]
    assert key.secret not in repr(key)


class Open:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.master_key, self.worker_key = keys()
        self.port = free_port()
        self.hub = Hub(directory, self.master_key, self.port)
        self.agents: list[Agent] = []

    def agent(self, name: str, key: LinkKey | None = None, **more: Any) -> Agent:
        self.agents.append(Agent(self.directory, key or self.worker_key, self.port, name, **more))
        return self.agents[-1]

    def raw(self, key: LinkKey | None, identity: bytes) -> Any:
        """A peer that says what it likes."""
        dealer = zmq.Context.instance().socket(zmq.DEALER)
        dealer.setsockopt(zmq.IDENTITY, identity)
        dealer.setsockopt(zmq.LINGER, 0)
        dealer.setsockopt(zmq.SNDTIMEO, 1_000)
        if key is not None:
            dealer.curve_secretkey, dealer.curve_publickey = key.secret.encode(), key.public.encode()
            dealer.curve_serverkey = key.peer_public.encode()
        dealer.connect(f"tcp://127.0.0.1:{self.port}")
        return dealer


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    found = Open(tmp_path_factory.mktemp("link"))
    yield found
    for agent in found.agents:
        agent.close()
    found.hub.close()


def names(hub: Hub) -> list[str]:
    return [host["name"] for host in hub.hosts()["hosts"]]


@pytest.mark.slow
def test_only_hosts_with_the_key_and_the_same_version_get_in(opened: Open) -> None:
    stranger = new_keys()[1]
    opened.agent("other-key", LinkKey(
        role="worker", public=stranger.public, secret=stranger.secret, peer_public=opened.worker_key.peer_public
    ))  # fmt: skip
    old = opened.agent("old", version="test-0")
    opened.agent("good")
    wait_until(lambda: names(opened.hub) == ["good"], "the good host")
    wait_until(lambda: bool(opened.hub.hosts()["refused"]), "the refusal")
    (refusal,) = opened.hub.hosts()["refused"]
    assert "test-0" in refusal
    assert "test-1" in refusal
    assert old.process.wait(timeout=120) == 3
    assert names(opened.hub) == ["good"]


@pytest.mark.slow
def test_garbage_floods_and_strangers_do_not_harm_a_host_that_is_there(opened: Open) -> None:
    wait_until(lambda: "good" in names(opened.hub), "the good host")
    for payload in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), b"\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f"):
        with socket.create_connection(("127.0.0.1", opened.port), timeout=60) as peer:
            peer.sendall(payload)
    held = [socket.create_connection(("127.0.0.1", opened.port), timeout=60) for _ in range(50)]
    plain = opened.raw(None, b"plain")
    plain.send(msgpack.dumps(("host_hello", {"name": "plain"}, "plain")))
    # One with the key: it may say anything, and still only spoils its own messages.
    insider = opened.raw(opened.worker_key, b"insider")
    hello = {"name": "x", "version": "test-1", "python": "3", "cores": 1, "clients": []}
    for body in (
        b"", b"\xc1", os.urandom(100), msgpack.dumps(5), msgpack.dumps(["host_hello"]),
        msgpack.dumps(("host_hello", {"name": "../x"}, "insider")),
        msgpack.dumps(("host_hello", {**hello, "name": "good"}, "insider")),
        msgpack.dumps(("host_clock", {"number": 2**60}, "insider")),
        msgpack.dumps(("host_state", {"cell_id": "c1", "state": 5}, "somebody-else")),
        msgpack.dumps(("stats", {"user_classes_count": 5}, "insider")),
        msgpack.dumps(("locustfile", {"version": "2"}, "insider")),
        msgpack.dumps(("client_ready", "0", "insider")), msgpack.dumps(("heartbeat", None, "insider")),
        msgpack.dumps(("quit", None, "insider")), msgpack.dumps(("exception", {}, "insider")),
    ):  # fmt: skip
        insider.send(body)
    flood = msgpack.dumps(("host_hello", {"name": "y" * 60_000}, "insider"))
    for _ in range(3_000):
        try:
            insider.send(flood, zmq.NOBLOCK)
        except zmq.Again:
            time.sleep(0.001)
    wait_until(lambda: "good" in names(opened.hub), "the good host, after the flood")
    samples = next(host["clock"]["samples"] for host in opened.hub.hosts()["hosts"] if host["name"] == "good")

    def is_asked_for_its_clock() -> bool:
        found = {host["name"]: host["clock"]["samples"] for host in opened.hub.hosts()["hosts"]}
        return found.get("good", 0) > samples and not {"plain", "../x"} & set(found)

    wait_until(is_asked_for_its_clock, "the good host goes on answering")
    for peer in held:
        peer.close()
    plain.close()
    insider.close()
