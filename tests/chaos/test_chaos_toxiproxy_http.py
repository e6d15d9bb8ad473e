"""The embedded server's API under a crowd: a caller is answered soon, and what is held for others is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import resource
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chaos.toxiproxy import http
from chaos.toxiproxy.api import Api
from chaos.toxiproxy.http import NEWCOMER_MS, Caller, HttpServer, who_must_go
from chaos.toxiproxy.http_message import HEADERS_MAX
from chaos.toxiproxy.inputs import Strictness
from chaos.toxiproxy.kafka.wire_log import WireLog
from chaos.toxiproxy.lookup import RunningServer
from chaos.toxiproxy.states import ProxySpec
from tests.chaos.conftest import Upstream

CROWD = 600
HALF_HEAD = b"GET /version HTTP/1.1\r\nhost: x\r\n"
GET = b"GET /version HTTP/1.1\r\n\r\n"
LARGE = b"POST /populate HTTP/1.1\r\nContent-Length: 4000000\r\n\r\n" + b"x" * 100_000
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Begin = Callable[[int, bytes], Awaitable[Pair]]


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[tuple[HttpServer, int]]:
    server = HttpServer(Api(wire_log=WireLog(None), rng=random.Random(1), strictness=Strictness.STRICT))
    port = await server.start("127.0.0.1", 0)
    try:
        yield server, port
    finally:
        server.stop()


def run(body: Coroutine[Any, Any, None]) -> None:
    """Bounded; a caller that is not answered shows as a timeout."""

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await body

    asyncio.run(bounded())


async def connect(port: int, data: bytes) -> Pair:
    pair = await asyncio.open_connection("127.0.0.1", port)
    pair[1].write(data)
    return pair


async def ask(port: int, data: bytes = GET) -> bytes:
    reader, writer = await connect(port, data)
    head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return head


async def answered(port: int, data: bytes = GET) -> Pair:
    """A caller that had an answer, and keeps its connection."""
    reader, writer = await connect(port, data)
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length"))
    await reader.readexactly(int(length.partition(b":")[2]))
    return reader, writer


@pytest.mark.parametrize(
    ("begin", "data"),
    [(connect, HALF_HEAD), (connect, b""), (connect, b"G"), (connect, LARGE[:200]), (answered, GET)],
    ids=["half heads", "silent", "a byte", "bodies", "answered"],
)
@pytest.mark.thorough
def test_a_crowd_that_sends_half_of_something_or_stays_keeps_nobody_out(begin: Begin, data: bytes) -> None:
    async def body() -> None:
        async with serving() as (server, port):
            crowd = [await begin(port, data) for _ in range(CROWD)]
            assert (await ask(port)).startswith(b"HTTP/1.1 200")
            assert len(server._callers) <= http.CONNECTIONS_MAX
            for _, writer in crowd:
                writer.transport.abort()

    run(body())


@pytest.mark.thorough
def test_a_kept_connection_outlives_a_crowd_of_half_heads() -> None:
    async def body() -> None:
        async with serving() as (_, port):
            reader, writer = await answered(port)
            crowd = [await connect(port, HALF_HEAD) for _ in range(CROWD)]
            await ask(port)
            writer.write(GET)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            for _, other in crowd:
                other.transport.abort()

    run(body())


@pytest.mark.thorough
def test_a_kept_connection_outlives_a_crowd_that_was_refused_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a head is refused after some time. On a busy host that time is over while the crowd still comes."""
    monkeypatch.setattr(http, "HEAD_TIMEOUT_MS", 10)

    async def body() -> None:
        async with serving() as (_, port):
            reader, writer = await answered(port)
            crowd = [await connect(port, HALF_HEAD) for _ in range(http.CONNECTIONS_MAX - 1)]
            for refused, _ in crowd:
                assert (await refused.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 408")
            await ask(port)
            writer.write(GET)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            for _, other in crowd:
                other.transport.abort()

    run(body())


def test_bodies_and_answers_that_are_held_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "HELD_BYTES_MAX", 20_000_000)

    async def body() -> None:
        async with serving() as (server, port):
            crowd = [await connect(port, LARGE) for _ in range(20)]
            while not any(reader.at_eof() or reader.exception() for reader, _ in crowd):
                await asyncio.sleep(0.01)
                assert sum(caller.held_bytes for caller in server._callers) <= 20_000_000
            document = json.dumps([]).encode()
            populate = b"POST /populate HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(document)
            assert (await ask(port, populate + document)).startswith(b"HTTP/1.1 201")
            for _, writer in crowd:
                writer.transport.abort()

    run(body())


@pytest.mark.thorough
def test_an_answer_that_nobody_takes_is_not_kept_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "WRITE_TIMEOUT_MS", 200)
    monkeypatch.setattr(http, "format_answer", lambda answer, *, keeps: b"x" * (64 << 20))

    async def body() -> None:
        async with serving() as (server, port):
            reader, writer = await connect(port, GET)
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            while not server._callers:
                await asyncio.sleep(0.01)
            while server._callers:
                await asyncio.sleep(0.01)
            writer.transport.abort()

    run(body())


@pytest.mark.parametrize(("setting", "data"), [("HEAD_TIMEOUT_MS", HALF_HEAD), ("BODY_TIMEOUT_MS", LARGE[:200])])
def test_a_request_that_has_begun_must_be_complete_soon(
    monkeypatch: pytest.MonkeyPatch, setting: str, data: bytes
) -> None:
    monkeypatch.setattr(http, setting, 100)

    async def body() -> None:
        async with serving() as (_, port):
            assert (await ask(port, data)).startswith(b"HTTP/1.1 408")

    run(body())


@pytest.mark.thorough
@pytest.mark.parametrize("piece", [b"x", b"h: x\r\n"], ids=["bytes", "headers"])
def test_a_head_that_drips_is_refused_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch, piece: bytes) -> None:
    monkeypatch.setattr(http, "HEAD_TIMEOUT_MS", 200)

    async def body() -> None:
        async with serving() as (_, port):
            reader, writer = await connect(port, b"GET /version HTTP/1.1\r\nhost: ")
            answer = asyncio.ensure_future(reader.read(12))
            while not answer.done():
                writer.write(piece)
                await asyncio.sleep(0.01)
            assert (await answer).startswith(b"HTTP/1.1 408")
            writer.transport.abort()

    run(body())


def test_more_headers_than_anybody_needs_are_refused() -> None:
    async def body() -> None:
        async with serving() as (_, port):
            for count, status in ((HEADERS_MAX, b"200"), (HEADERS_MAX + 1, b"431")):
                headers = b"".join(b"h%d: x\r\n" % number for number in range(count))
                assert (await ask(port, GET[:-2] + headers + b"\r\n")).split()[1] == status

    run(body())


CALLERS = st.lists(
    st.builds(
        Caller,
        host=st.sampled_from("abc"),
        since_ms=st.floats(0, 1_000),
        is_worked_on=st.booleans(),
        was_answered=st.booleans(),
    ),
    max_size=12,
)


KEPT = Caller(host="a", since_ms=0.0, was_answered=True)
NEWCOMER = Caller(host="a", since_ms=751.0)


@given(callers=CALLERS, now_ms=st.floats(1_000, 2_000))
@example(callers=[KEPT, NEWCOMER], now_ms=1_000.0)
@pytest.mark.thorough
def test_who_must_go_only_waits_and_belongs_to_the_largest_crowd(callers: list[Caller], now_ms: float) -> None:
    one = who_must_go(callers, now_ms)
    waiting = [caller for caller in callers if not caller.is_worked_on]
    if one is None:
        assert waiting == []
        return
    assert one in waiting
    of_host = [caller for caller in waiting if caller.host == one.host]
    assert all(len(of_host) >= sum(other.host == host for other in waiting) for host in "abc")
    unanswered = [caller for caller in of_host if not caller.was_answered]
    had_their_time = [caller for caller in unanswered if now_ms - caller.since_ms >= NEWCOMER_MS]
    if had_their_time:
        assert one.since_ms == min(caller.since_ms for caller in had_their_time)
    elif one.was_answered:
        assert len(of_host) > 2 * len(unanswered), "callers that keep a connection are the crowd"
    else:
        assert len(of_host) <= 2 * len(unanswered), "newcomers are the crowd"


def test_a_crowd_that_was_answered_leaves_newcomers_half_of_the_places() -> None:
    callers = [Caller(host="a", since_ms=0.0, was_answered=True) for _ in range(8)]
    for _ in range(100):
        gone = who_must_go(callers, 1_000)
        assert gone is not None
        callers.remove(gone)
        callers.append(Caller(host="a", since_ms=1_000))
    assert sum(caller.was_answered for caller in callers) == 4


@pytest.mark.slow
def test_faults_are_healed_while_a_crowd_holds_half_sent_requests(
    embedded_server: RunningServer, echo_upstream: Upstream
) -> None:
    client = embedded_server.client()
    client.create(ProxySpec(name="healed", upstream=echo_upstream.address))
    client.add_toxic("healed", "latency", {"latency": 5}, name="t")
    port = int(embedded_server.url.rpartition(":")[2])
    crowd = []
    try:
        for _ in range(CROWD):
            crowd.append(socket.create_connection(("127.0.0.1", port), timeout=60))
            crowd[-1].sendall(HALF_HEAD)
        fresh = embedded_server.client()
        began_s = time.monotonic()
        fresh.remove_toxic("healed", "t")
        assert time.monotonic() - began_s < http.HEAD_TIMEOUT_MS / 1000, "not by waiting for the crowd to go"
        assert fresh.toxics("healed") == {}
        fresh.close()
    finally:
        for connection in crowd:
            connection.close()
    client.delete("healed")
    client.close()


@pytest.mark.slow
def test_a_crowd_at_a_proxy_leaves_descriptors_for_the_api(tmp_path: Path, echo_upstream: Upstream) -> None:
    command = [sys.executable, "-m", "chaos.toxiproxy.server", "--port", "0"]

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))

    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=few) as process:
        crowd = []
        try:
            assert process.stderr is not None
            port = int(process.stderr.readline().split("port=")[1].split()[0])
            client = RunningServer(url=f"http://127.0.0.1:{port}", version="", is_embedded=True).client()
            host, _, listen = client.create(ProxySpec(name="p", upstream=echo_upstream.address)).listen.rpartition(":")
            crowd += [socket.create_connection((host, int(listen)), timeout=60) for _ in range(150)]
            fresh = RunningServer(url=client.url, version="", is_embedded=True).client()
            fresh.disable("p")
            fresh.close()
            client.close()
        finally:
            for connection in crowd:
                connection.close()
            process.terminate()
