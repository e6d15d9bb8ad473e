"""The servers that one produce load is sent to: bare ones, librdkafka's mock cluster, and both brokers.

Each has its processor time and takes one load at a time. A bare server and a mock are started anew for each load, a
broker keeps its process: Apache Kafka must stay warm.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import confluent_kafka

from benchmarks.compiled import compiled
from benchmarks.limits.page import BARE, BARE_IN_PYTHON
from benchmarks.replay import METADATA_VERSION, PRODUCE_VERSION
from broker.wire.apis import ApiKey
from broker.wire.codec import encode_response
from broker.wire.messages import response
from harness.clusters.ports import free_port
from harness.errors import EnvironmentFault

SOURCE: Final = Path(__file__).with_name("bare_server.c")
READY_TIMEOUT_S: Final = 20.0
_MARK: Final = 0x0123456789ABCDEF  # stands for the base offset, to find its place


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """A server that receives and answers, and looks at nothing. `writes`: each batch to a file as well."""

    name: str
    command: tuple[str, ...]  # without its arguments
    threads: int
    writes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    bootstrap: str
    pid: int


def bare_servers(directory: Path) -> tuple[Bare, ...]:
    in_c, in_python = (compiled(SOURCE, directory),), (sys.executable, "-m", "benchmarks.limits.bare_server")
    return (
        Bare(name=f"{BARE}, writes nothing", command=in_c, threads=1, writes=False),
        Bare(name=BARE, command=in_c, threads=1, writes=True),
        Bare(name="bare, in C, 2 threads", command=in_c, threads=2, writes=True),
        Bare(name=BARE_IN_PYTHON, command=in_python, threads=1, writes=True),
    )


@contextmanager
def running_bare(bare: Bare, directory: Path, topic: str, records: int) -> Iterator[Served]:
    """`records`: how many a request has. What it wrote is removed."""
    port = free_port()
    metadata, answer, written = (directory / name for name in ("metadata", "answer", "written"))
    metadata.write_bytes(_metadata_answer(port, topic))
    frame = _produce_answer(topic)
    answer.write_bytes(frame)
    place = str(frame.index(_MARK.to_bytes(8, "big")))
    options = [str(bare.threads), str(written) if bare.writes else "", str(metadata), str(answer), place, str(records)]
    process = subprocess.Popen(
        [*bare.command, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PORT": str(port)},
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise EnvironmentFault(f"{bare.name}: it did not start")
        yield Served(bootstrap=f"127.0.0.1:{port}", pid=process.pid)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        written.unlink(missing_ok=True)


@contextmanager
def running_mock(topic: str) -> Iterator[Served]:
    """librdkafka's mock cluster of one broker: it keeps batches in memory, in one thread. Its topics have four
    partitions, which the load takes in turns."""
    ours, theirs = multiprocessing.Pipe()
    mock = multiprocessing.get_context("spawn").Process(target=_serve_mock, args=(theirs, topic), daemon=True)
    mock.start()
    try:
        if not ours.poll(READY_TIMEOUT_S):
            raise EnvironmentFault("librdkafka's mock cluster did not start")
        bootstrap: str = ours.recv()
        assert mock.pid is not None
        yield Served(bootstrap=bootstrap, pid=mock.pid)
    finally:
        mock.kill()
        mock.join()


def _serve_mock(pipe: Connection, topic: str) -> None:
    """Until the pipe is closed."""
    settings = {"bootstrap.servers": "mock:1", "test.mock.num.brokers": 1, "log_level": 0}
    owner = confluent_kafka.Producer(settings)
    (broker,) = owner.list_topics(topic, timeout=10).brokers.values()  # the question makes the topic
    pipe.send(f"{broker.host}:{broker.port}")
    with contextlib.suppress(EOFError):
        pipe.recv()


def _metadata_answer(port: int, topic: str) -> bytes:
    partition = {"partition_index": 0, "leader_id": 1, "leader_epoch": 0, "replica_nodes": [1], "isr_nodes": [1]}
    return _frame(
        ApiKey.METADATA,
        METADATA_VERSION,
        brokers=[{"node_id": 1, "host": "127.0.0.1", "port": port}],
        controller_id=1,
        topics=[{"name": topic, "topic_id": UUID(int=1), "partitions": [partition]}],
    )


def _produce_answer(topic: str) -> bytes:
    partition = {"index": 0, "error_code": 0, "base_offset": _MARK, "log_start_offset": 0}
    return _frame(ApiKey.PRODUCE, PRODUCE_VERSION, responses=[{"name": topic, "partition_responses": [partition]}])


def _frame(api_key: ApiKey, version: int, **fields: Any) -> bytes:
    message: Any = response(api_key, version, **fields)  # type: ignore[call-overload]  # either of two APIs
    return b"".join(encode_response(api_key, version, 0, message))
