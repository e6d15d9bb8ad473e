"""Links in the pump behave as those outside, on either event loop: toxics, ends, resets, slow readers, byte counts."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import random
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace

import pytest
import uvloop

from chaos.toxiproxy.api import Api
from chaos.toxiproxy.endpoint import Endpoint
from chaos.toxiproxy.inputs import Strictness
from chaos.toxiproxy.kafka.wire_log import WireLog
from chaos.toxiproxy.pump import Pump

pytestmark = pytest.mark.slow  # many connections on two event loops

WAIT_S = 60
STOP_BYTES_MAX = 64 << 20  # a sender that is not slowed down sends much more
# Version 0, with the correlation id that stands where an answer has it when the request itself comes back.
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 18 << 16, -1)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Setup:
    """A proxy named p in this process. `pump` has its links."""

    def __init__(self, api: Api, pump: Pump, listen: str) -> None:
        self.api, self.pump, self.listen = api, pump, listen

    async def call(self, method: str, path: str, body: object = None) -> str:
        answer = await self.api.handle(method, path, json.dumps(body).encode())
        assert answer.status < 300, answer.content()
        return answer.content().decode()

    async def connect(self) -> Streams:
        host, _, port = self.listen.rpartition(":")
        return await asyncio.open_connection(host, int(port))


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def proxied(serve: Serve = echo, *, after_chunks: int = 1, wire_log: Path | None = None) -> AsyncIterator[Setup]:
    """`after_chunks` 0: without the pump."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await serve(reader, writer)

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    upstream = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with contextlib.closing(WireLog(wire_log)) as log, contextlib.closing(Pump(after_chunks)) as pump:
        api = Api(
            wire_log=log,
            rng=random.Random(1),
            strictness=Strictness.STRICT,
            has_proxy_metrics=True,
            pump=pump if after_chunks else None,
        )
        setup = Setup(api, pump, "")
        setup.listen = json.loads(await setup.call("POST", "/proxies", {"name": "p", "upstream": upstream}))["listen"]
        try:
            yield setup
        finally:
            api.stop()
            server.close()
            assert pump.passage_count == 0, "no direction outlives its connection"
            await asyncio.sleep(0)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[None, None, None]], None]:
    def in_loop(test: Coroutine[None, None, None]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(WAIT_S):
                await test

        with asyncio.Runner(loop_factory=request.param) as runner:
            problems: list[dict[str, object]] = []
            runner.get_loop().set_exception_handler(lambda _, context: problems.append(context))
            runner.run(bounded())
            assert problems == []

    return in_loop


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.001)


async def round_trip(streams: Streams, data: bytes = b"ping") -> None:
    streams[1].write(data)
    assert await streams[0].readexactly(len(data)) == data


async def in_pump(setup: Setup, streams: Streams) -> None:
    """Round trips until both directions are in the pump."""
    await round_trip(streams)
    await round_trip(streams)
    assert setup.pump.passage_count == 2


async def has_ended(reader: asyncio.StreamReader) -> bool:
    """By FIN or RST, without a byte."""
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


async def counts(setup: Setup) -> list[int]:
    """Bytes that were received, downstream and upstream, then those that were sent."""
    lines = (await setup.call("GET", "/metrics")).splitlines()
    return [int(float(line.rpartition(" ")[2])) for line in lines if line.startswith("toxiproxy_proxy_")]


def reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def test_a_link_enters_the_pump_after_some_chunks_and_not_before(run) -> None:
    async def test() -> None:
        async with proxied(after_chunks=3) as setup:
            streams = await setup.connect()
            counts = []
            for _ in range(4):
                await round_trip(streams)
                counts.append(setup.pump.passage_count)
            assert counts == [0, 0, 2, 2]

    run(test())


def test_a_link_that_the_kernel_cannot_watch_stays_with_its_transports(run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pump: Pump, passage: object) -> None:
        raise OSError(errno.ENOSPC, "no more watches")

    async def test() -> None:
        async with proxied() as setup:
            streams = await setup.connect()
            for _ in range(5):
                await round_trip(streams)

    monkeypatch.setattr(Pump, "add", refuse)
    run(test())


def test_a_toxic_takes_effect_on_a_link_that_flows_and_the_link_comes_back_after_it(run) -> None:
    async def test() -> None:
        async with proxied() as setup:
            streams = await setup.connect()
            await in_pump(setup, streams)
            for stream in ("upstream", "downstream"):
                toxic = {"type": "latency", "stream": stream, "name": "late", "attributes": {"latency": 100}}
                await setup.call("POST", "/proxies/p/toxics", toxic)
                assert setup.pump.passage_count == 1, "only the direction of the toxic left"
                for _ in range(3):
                    began_s = time.monotonic()
                    await round_trip(streams)
                    assert time.monotonic() - began_s >= 0.099, "uvloop counts in whole milliseconds"
                await setup.call("DELETE", "/proxies/p/toxics/late")
                while setup.pump.passage_count < 2:
                    await round_trip(streams)

    run(test())


def test_a_toxic_that_is_added_among_flowing_bytes_loses_and_reorders_none(run) -> None:
    async def test() -> None:
        data = os.urandom(8 << 20)

        async def send(writer: asyncio.StreamWriter) -> None:
            for at in range(0, len(data), 10_000):
                writer.write(data[at : at + 10_000])
                await writer.drain()

        async with proxied() as setup:
            reader, writer = await setup.connect()
            sending = asyncio.create_task(send(writer))
            received, number = b"", 0
            while len(received) < len(data):
                received += await reader.readexactly(min(400_000, len(data) - len(received)))
                toxic = {"type": "slicer", "stream": ("upstream", "downstream")[number // 2 % 2], "name": "cut",
                         "attributes": {"average_size": 5_000}}  # fmt: skip
                if number % 2 == 0:
                    await setup.call("POST", "/proxies/p/toxics", toxic)
                else:
                    await setup.call("DELETE", "/proxies/p/toxics/cut")
                number += 1
            await sending
            assert received == data, "the same bytes"

    run(test())


@pytest.mark.parametrize("how", ["toxic", "log"])
def test_links_leave_the_pump_when_kafka_frames_are_read_from_now_on(run, how: str) -> None:
    async def test() -> None:
        async with proxied() as setup:
            streams = await setup.connect()
            await in_pump_with(setup, streams, API_VERSIONS)
            if how == "toxic":
                body = {"type": "kafka_drop_response", "attributes": {"count": 1, "api": "ApiVersions"}}
                await setup.call("POST", "/proxies/p/toxics", body)
            else:
                await setup.call("POST", "/proxies/p", {"kafka_log": True})
            assert setup.pump.passage_count == 0
            streams[1].write(API_VERSIONS)
            if how == "toxic":
                assert await has_ended(streams[0])
            else:
                assert await streams[0].readexactly(len(API_VERSIONS)) == API_VERSIONS
                assert setup.pump.passage_count == 0, "and they do not come back"

    run(test())


async def in_pump_with(setup: Setup, streams: Streams, data: bytes) -> None:
    await round_trip(streams, data)
    await round_trip(streams, data)
    assert setup.pump.passage_count == 2


def test_with_a_wire_log_no_link_enters_the_pump(run, tmp_path: Path) -> None:
    async def test() -> None:
        async with proxied(wire_log=tmp_path / "wire.jsonl") as setup:
            streams = await setup.connect()
            for _ in range(5):
                await round_trip(streams, API_VERSIONS)
            assert setup.pump.passage_count == 0

    run(test())


@pytest.mark.parametrize("after_chunks", [0, 1])
def test_a_slow_reader_slows_the_sender_down_and_gets_every_byte(run, after_chunks: int) -> None:
    async def test() -> None:
        block, sent, is_stopping = os.urandom(100_000), 0, False

        async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            while not is_stopping:
                writer.write(block)
                sent += len(block)
                assert sent < STOP_BYTES_MAX, "the sender must be slowed down to a stop"
                await writer.drain()
            writer.close()

        async with proxied(flood, after_chunks=after_chunks) as setup:
            connection = socket.socket()
            connection.setblocking(False)
            host, _, port = setup.listen.rpartition(":")
            await asyncio.get_running_loop().sock_connect(connection, (host, int(port)))
            before = -1
            while sent != before:  # nobody reads
                before = sent
                await asyncio.sleep(0.2)
            assert sent > 0
            is_stopping = True
            reader, _ = await asyncio.open_connection(sock=connection)
            received = await reader.read(-1)
            assert received == block * (sent // len(block)), "the same bytes"
            assert (await counts(setup))[::2] == [sent, sent], "those that had to wait too"

    run(test())


@pytest.mark.parametrize("after_chunks", [0, 1])
def test_each_side_may_end_its_direction_and_the_other_goes_on(run, after_chunks: int) -> None:
    async def test() -> None:
        async def answer_after_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(4))
            writer.write(await reader.readexactly(4))
            rest = await reader.read(-1)
            for _ in range(5):
                writer.write(rest)
                await writer.drain()
                await asyncio.sleep(0.001)
            writer.close()

        async def end_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in range(2):
                writer.write(await reader.readexactly(4))
            writer.write_eof()
            collected.append(await reader.read(-1))
            writer.close()

        collected: list[bytes] = []
        for serve in (answer_after_the_end, end_first):
            async with proxied(serve, after_chunks=after_chunks) as setup:
                reader, writer = await setup.connect()
                for _ in range(2):
                    await round_trip((reader, writer))
                if serve is answer_after_the_end:
                    writer.write(b"rest")
                    writer.write_eof()
                    assert await reader.read(-1) == b"rest" * 5
                else:
                    assert await reader.read(-1) == b""
                    for _ in range(5):
                        writer.write(b"late")
                        await asyncio.sleep(0.001)
                    writer.write_eof()
                    await until(lambda: bool(collected))
                    assert collected == [b"late" * 5]
                await until(lambda: setup.pump.passage_count == 0)

    run(test())


@pytest.mark.parametrize("after_chunks", [0, 1])
@pytest.mark.parametrize("who", ["client", "upstream"])
def test_a_reset_of_either_side_in_the_middle_of_a_flood_ends_the_other(run, after_chunks: int, who: str) -> None:
    async def test() -> None:
        served: asyncio.Queue[Streams] = asyncio.Queue()
        is_over = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await served.put((reader, writer))
            await is_over.wait()

        async def flood(writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                while True:
                    writer.write(b"x" * 50_000)
                    await writer.drain()

        async with proxied(serve, after_chunks=after_chunks) as setup:
            client = await setup.connect()
            upstream = await served.get()
            floods = [asyncio.create_task(flood(each[1])) for each in (client, upstream)]
            for _ in range(20):
                await client[0].readexactly(50_000)
                await upstream[0].readexactly(50_000)
            resetting, other = (client, upstream) if who == "client" else (upstream, client)
            reset(resetting[1])
            with contextlib.suppress(ConnectionError):
                while await other[0].read(1 << 20):
                    pass
            await until(lambda: setup.pump.passage_count == 0)
            for task in floods:
                task.cancel()
            is_over.set()
            other[1].close()

    run(test())


def test_an_error_that_only_the_pump_read_ends_both_sides(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset may come between the look and the read. The socket tells it once, and then only an end."""

    async def test() -> None:
        async with proxied() as setup:
            streams = await setup.connect()
            await in_pump(setup, streams)
            with monkeypatch.context() as patched:
                patched.setattr(os, "readv", fail)
                streams[1].write(b"never read")
                await until(lambda: setup.pump.passage_count == 0)
            assert await has_ended(streams[0])

    def fail(descriptor: int, buffers: object) -> int:
        raise ConnectionResetError

    run(test())


@pytest.mark.parametrize("call", [("POST", {"enabled": False}), ("DELETE", None)])
def test_links_end_with_their_proxy(run, call: tuple[str, object]) -> None:
    async def test() -> None:
        async with proxied() as setup:
            streams = await setup.connect()
            await in_pump(setup, streams)
            await setup.call(call[0], "/proxies/p", call[1])
            assert setup.pump.passage_count == 0
            assert await has_ended(streams[0])

    run(test())


@pytest.mark.parametrize("after_chunks", [0, 1])
def test_every_byte_is_counted_once(run, after_chunks: int) -> None:
    async def test() -> None:
        async with proxied(after_chunks=after_chunks) as setup:
            streams = await setup.connect()
            for size in (1, 10, 100, 1_000, 300_000):
                await round_trip(streams, os.urandom(size))
            assert await counts(setup) == [301_111] * 4

    run(test())


@pytest.mark.parametrize("after_chunks", [0, 1])
def test_connections_that_come_and_go_leave_no_byte_in_others(run, after_chunks: int) -> None:
    """Closed sockets' numbers are taken again at once, and each connection knows its own bytes."""

    async def test() -> None:
        rng = random.Random(5)
        async with proxied(after_chunks=after_chunks) as setup:

            async def visit(number: int) -> None:
                streams = await setup.connect()
                for turn in range(rng.randrange(1, 12)):
                    await round_trip(streams, b"%d-%d|" % (number, turn) * rng.choice((1, 50, 5_000)))
                streams[1].write(b"%d-last|" % number * rng.choice((1, 5_000)))
                if rng.random() < 0.5:
                    reset(streams[1])
                else:
                    streams[1].close()

            async def stay(number: int) -> None:
                streams = await setup.connect()
                for turn in range(150):
                    await round_trip(streams, b"stays %d-%d|" % (number, turn) * rng.choice((1, 100)))
                streams[1].close()

            staying = [asyncio.create_task(stay(number)) for number in range(10)]
            for first in range(0, 300, 15):
                await asyncio.gather(*(visit(number) for number in range(first, first + 15)))
            await asyncio.gather(*staying)
            await until(lambda: setup.pump.passage_count == 0)

    run(test())


def test_a_socket_with_tls_or_with_bytes_to_send_stays_with_its_transport() -> None:
    class Transport:
        def __init__(self, waiting: int = 0, *, is_closing: bool = False) -> None:
            self.get_write_buffer_size = lambda: waiting
            self.is_closing = lambda: is_closing
            self.pause_reading = self.write_eof = lambda: None

        def get_extra_info(self, name: str) -> object:
            return SimpleNamespace(fileno=lambda: 9)

    def descriptors(transport: Transport, *, is_tls: bool = False, is_ended: bool = False) -> tuple[object, object]:
        endpoint = Endpoint(is_tls=is_tls)
        endpoint.connection_made(transport)  # type: ignore[arg-type]
        if is_ended:
            endpoint.write_eof()
        return endpoint.descriptor(to_write=False), endpoint.descriptor(to_write=True)

    assert descriptors(Transport()) == (9, 9)
    assert descriptors(Transport(1)) == (9, None)
    assert descriptors(Transport(), is_ended=True) == (9, None)
    assert descriptors(Transport(is_closing=True)) == (None, None)
    assert descriptors(Transport(), is_tls=True) == (None, None)
