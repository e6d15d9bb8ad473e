"""The server of known behaviour: one reference broker behind a relay that holds answers back by plan.

The broker advertises the relay's address, so every client goes through the relay. Requests pass at once. Answers keep
their order on a connection. Owns the thread of its event loop and the process of the broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

from benchmarks.known_server.plan import Plan
from broker.wire.apis import ApiKey
from broker.wire.codec import decode_request, decode_response_correlation_id
from broker.wire.framing import FrameReader
from broker.wire.records import parse_batch_header
from harness.clusters.ports import PortAllocator

READ_BYTES: Final = 256 * 1024
START_TIMEOUT_S: Final = 20.0


class KnownServer:
    """`with KnownServer(directory) as server:`, clients at `server.bootstrap_servers`; `plan` may be set any time."""

    def __init__(self, directory: Path) -> None:
        self._plan = Plan()
        self._directory = directory
        ports = self._ports = PortAllocator()
        self._relay_port, self._port, self._internal_port, self._controller_port = (ports.take() for _ in range(4))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._broker: subprocess.Popen[bytes] | None = None
        self._free_at_s = 0.0  # when the planned capacity has worked off all that came

    @property
    def plan(self) -> Plan:
        return self._plan

    @plan.setter
    def plan(self, plan: Plan) -> None:
        self._plan, self._free_at_s = plan, 0.0

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._relay_port}"

    def __enter__(self) -> KnownServer:
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            self._start_broker()
            self._thread.start()
            serving = asyncio.start_server(self._serve, "127.0.0.1", self._relay_port, limit=READ_BYTES)
            asyncio.run_coroutine_threadsafe(serving, self._loop).result(START_TIMEOUT_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5)
        if self._broker is not None:
            self._broker.send_signal(signal.SIGKILL)
            self._broker.wait(10)

    def _start_broker(self) -> None:
        listeners = {"CLIENT": self._port, "INTERNAL": self._internal_port, "CONTROLLER": self._controller_port}
        properties = {
            "node.id": 1,
            "process.roles": "broker,controller",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
            "advertised.listeners": f"CLIENT://127.0.0.1:{self._relay_port},INTERNAL://127.0.0.1:{self._internal_port}",
            "inter.broker.listener.name": "INTERNAL",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self._directory / "data",
            "default.replication.factor": 1,
        }
        path = self._directory / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
        root = str(Path(__file__).parents[2])
        with (self._directory / "broker.log").open("wb") as log:
            self._broker = subprocess.Popen(
                [sys.executable, "-m", "broker.node", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={**os.environ, "PYTHONPATH": root},
            )

    # -- one connection

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            broker, to_broker = await asyncio.open_connection("127.0.0.1", self._port, limit=READ_BYTES)
        except OSError:
            to_client.close()
            return
        waits: dict[int, float] = {}  # correlation id -> when its answer is due
        passing = [
            asyncio.ensure_future(self._requests(client, to_broker, waits)),
            asyncio.ensure_future(self._answers(broker, to_client, waits)),
        ]
        with contextlib.suppress(OSError):
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)
        for writer in (to_client, to_broker):
            writer.close()

    async def _requests(
        self, client: asyncio.StreamReader, to_broker: asyncio.StreamWriter, waits: dict[int, float]
    ) -> None:
        frames = FrameReader()
        while data := await client.read(READ_BYTES):
            frames.receive_bytes(data)
            while (frame := frames.next_frame()) is not None:
                self._note(frame, waits)
            to_broker.write(data)
            await to_broker.drain()

    def _note(self, frame: memoryview, waits: dict[int, float]) -> None:
        if int.from_bytes(frame[:2], "big") != ApiKey.PRODUCE:
            return
        plan, now_s = self.plan, time.monotonic()
        header, message = decode_request(frame)
        due_s = now_s + plan.delay_s_by_acks.get(message.acks, 0.0)
        if plan.records_per_s is not None:
            records = sum(
                parse_batch_header(partition.records).record_count
                for topic in message.topic_data
                for partition in topic.partition_data
            )
            self._free_at_s = max(self._free_at_s, now_s) + records / plan.records_per_s
            due_s = max(due_s, self._free_at_s)
        waits[header.correlation_id] = due_s

    async def _answers(
        self, broker: asyncio.StreamReader, to_client: asyncio.StreamWriter, waits: dict[int, float]
    ) -> None:
        """Answers wait one behind the other, as on a connection that the broker serves in order."""
        while True:
            size = await broker.readexactly(4)
            body = await broker.readexactly(int.from_bytes(size, "big"))
            due_s = waits.pop(decode_response_correlation_id(body), None)
            if due_s is not None:
                wait_s = self.plan.release_s(max(due_s, time.monotonic())) - time.monotonic()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
            to_client.write(size + body)
            await to_client.drain()
