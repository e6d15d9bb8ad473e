"""Where the keys of tokens come from may answer anything: the broker goes on, with the keys that it had."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from broker.node.net import signing_keys
from broker.node.net.signing_keys import SigningKeys
from broker.node.process.logs import Logger

ANSWERS = {
    "no http": b"what do you want\r\n\r\n",
    "a line without an end": b"HTTP/1.1 200 " + b"x" * 70_000,
    "less than it says": b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{}",
    "an error": b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
    "no keys": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    "nothing": b"",
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_whatever_is_answered_the_keys_stay_as_they_are(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_answer, args=(listener, answer))
        thread.start()
        keys = SigningKeys(f"http://127.0.0.1:{listener.getsockname()[1]}/", refresh_ms=60_000, logger=Logger(1))
        assert asyncio.run(keys._read()) is False
        thread.join(30)
    assert keys.by_id == {}


@pytest.mark.thorough
def test_a_key_that_is_asked_for_just_after_a_read_is_read_next(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = SigningKeys("http://127.0.0.1:1/", refresh_ms=3_600_000, logger=Logger(1))
    reads = asyncio.Event()
    count = 0

    async def read() -> bool:
        nonlocal count
        count += 1
        if count == 2:
            reads.set()
        return True

    async def run() -> None:
        task = asyncio.create_task(keys.run())
        while not count:
            await asyncio.sleep(0)
        keys.unknown()  # the pause after the first read is not over
        await asyncio.wait_for(reads.wait(), 30)
        task.cancel()

    monkeypatch.setattr(signing_keys, "RETRY_S", 0.2)
    monkeypatch.setattr(keys, "_read", read)
    asyncio.run(run())


def _answer(listener: socket.socket, answer: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(answer)
