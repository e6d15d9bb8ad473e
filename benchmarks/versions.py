"""Compares two checkouts of the reference broker: `python -m benchmarks.versions OLD_DIRECTORY`.

It starts one broker process of each. Their rounds alternate, and each round reverses the order. It counts the CPU time
of the broker's event loop (its main thread, by schedstat). So other load on the host affects both alike. A round is a
few hundred equal requests over one connection: produces (acks=all, one replica) of several record sizes, batches and
codecs, fetches, and small requests. Writes results/<date>-broker-versions.json and .md, and prints the page.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.host_facts import host_facts
from broker.wire.apis import ApiKey
from broker.wire.batch_encoder import encode_batch
from broker.wire.codec import decode_response, encode_request
from broker.wire.compression import CodecId
from broker.wire.messages import Message, request

RESULTS: Final = Path(__file__).with_name("results")
START_S: Final = 60.0
REQUESTS: Final = 150  # a round; of large ones fewer
LARGE_BYTES, LARGE_REQUESTS = 60_000, 40
IN_FLIGHT: Final = (1, 5)
SIZES: Final = (100, 1_000)  # bytes of a value
BATCH_BYTES: Final = (1, 16_384, 131_072)  # 1: one record
RECORD_OVERHEAD_BYTES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    frame: bytes
    requests: int
    in_flight: int = 1


class Version:
    """One broker process of one checkout. Its directory and process are this object's."""

    def __init__(self, name: str, checkout: Path, directory: Path) -> None:
        self.name, self._directory = name, directory
        directory.mkdir()
        ports = _free_ports(3)
        listeners = zip(("EXTERNAL", "INTERNAL", "CONTROLLER"), ports, strict=True)
        settings = {
            "node.id": 1,
            "process.roles": "broker,controller",
            "controller.quorum.voters": f"1@127.0.0.1:{ports[2]}",
            "listeners": ",".join(f"{each}://127.0.0.1:{port}" for each, port in listeners),
            "inter.broker.listener.name": "INTERNAL",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": directory / "data",
            "log.segment.bytes": 32 << 20,
            "log.retention.bytes": 64 << 20,
        }
        path = directory / "broker.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        with (directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "broker.node", str(path)], cwd=checkout, env=environment, stdout=log, stderr=log
            )
        self._connection = self._connect(ports[0])

    def _connect(self, port: int) -> socket.socket:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                self._connection = socket.create_connection(("127.0.0.1", port), timeout=START_S)
                self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self.ask(ApiKey.METADATA, 9, topics=()).brokers:
                    return self._connection
                self._connection.close()
            except OSError:
                pass
            time.sleep(0.05)
        raise RuntimeError(f"broker {self.name} did not start: {(self._directory / 'log').read_text()[-2_000:]}")

    def ask(self, api_key: ApiKey, version: int, **fields: object) -> Any:  # Any: kio's message
        self._connection.sendall(_frame(api_key, version, **fields))
        return decode_response(api_key, version, _answer(self._connection))[1]

    def make_topic(self, name: str) -> None:
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        self.ask(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=10_000, validate_only=False)
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            answer = self.ask(ApiKey.METADATA, 9, topics=[{"name": name}])
            if answer.topics[0].partitions and answer.topics[0].partitions[0].leader_id == 1:
                return
            time.sleep(0.05)
        raise RuntimeError(f"topic {name} has no leader at broker {self.name}")

    def round_us(self, case: Case) -> float:
        """Processor time a request."""
        before_ns = self._cpu_ns()
        for _ in range(case.in_flight):
            self._connection.sendall(case.frame)
        for number in range(case.requests):
            _answer(self._connection)
            if number + case.in_flight < case.requests:
                self._connection.sendall(case.frame)
        return (self._cpu_ns() - before_ns) / case.requests / 1_000

    def _cpu_ns(self) -> int:
        return int(Path(f"/proc/{self._process.pid}/schedstat").read_text().split()[0])

    def close(self) -> None:
        self._connection.close()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(START_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _frame(api_key: ApiKey, version: int, **fields: object) -> bytes:
    make: Callable[..., Message] = request  # its types are for one API each
    return b"".join(encode_request(api_key, version, 7, "versions", make(api_key, version, **fields)))


def _answer(connection: socket.socket) -> bytes:
    data = bytearray()
    size = 4
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        data += piece
        if size == 4 and len(data) == 4:
            size += int.from_bytes(data)
    return bytes(data[4:])


def _batch(sizes: Sequence[int], codec: CodecId, rng: random.Random) -> bytes:
    """Values are half random: they compress to a half. A new millisecond every ten records."""
    now_ms = time.time_ns() // 1_000_000
    values = [rng.randbytes(size // 2) + b"a" * (size - size // 2) for size in sizes]
    return encode_batch(values, timestamps_ms=[now_ms + index // 10 for index in range(len(sizes))], codec=codec)


def _produce(topic: str, batch: bytes) -> bytes:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    return _frame(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout=30_000, topic_data=data)


def _cases(versions: Sequence[Version], rng: random.Random) -> list[Case]:
    cases: list[Case] = []

    def add_produce(name: str, batch: bytes) -> None:
        topic = f"t{len(cases)}"
        for each in versions:
            each.make_topic(topic)
        frame, requests = _produce(topic, batch), LARGE_REQUESTS if len(batch) > LARGE_BYTES else REQUESTS
        cases.extend(
            Case(name=f"produce {name}, {count} in flight", frame=frame, requests=requests, in_flight=count)
            for count in IN_FLIGHT
        )

    for codec in (CodecId.NONE, CodecId.LZ4, CodecId.ZSTD):
        for size in SIZES:
            for batch_bytes in BATCH_BYTES:
                count = max(1, batch_bytes // (size + RECORD_OVERHEAD_BYTES))
                what = "1 record" if count == 1 else f"{batch_bytes >> 10} KiB"
                add_produce(f"{size} B, {what}, {codec.name.lower()}", _batch([size] * count, codec, rng))
    mixed = [rng.randrange(20, 181) for _ in range(150)]
    add_produce("20 to 180 B, 16 KiB, none", _batch(mixed, CodecId.NONE, rng))
    return [*cases, *_other_cases(versions, rng)]


def _other_cases(versions: Sequence[Version], rng: random.Random) -> list[Case]:
    frame = _produce("fetched", _batch([100] * 150, CodecId.NONE, rng))
    names = [f"m{number}" for number in range(20)]
    for each in versions:
        for name in ("fetched", *names):
            each.make_topic(name)
        each.round_us(Case(name="", frame=frame, requests=80))
    topics = [{"name": name} for name in names]
    offsets = [{"name": "fetched", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    cases = [
        Case(name=f"fetch {size >> 10} KiB", frame=_fetch(size), requests=REQUESTS if size < LARGE_BYTES else 40)
        for size in (16_384, 1 << 20)
    ]
    return [
        *cases,
        Case(name="metadata of 20 topics", frame=_frame(ApiKey.METADATA, 9, topics=topics), requests=REQUESTS),
        Case(
            name="list offsets",
            frame=_frame(ApiKey.LIST_OFFSETS, 6, replica_id=-1, isolation_level=0, topics=offsets),
            requests=REQUESTS,
        ),
        Case(
            name="find coordinator",
            frame=_frame(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["g"]),
            requests=REQUESTS,
        ),
    ]


def _fetch(size_bytes: int) -> bytes:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": size_bytes}
    topics = [{"topic": "fetched", "partitions": [partition]}]
    return _frame(ApiKey.FETCH, 12, max_wait=0, min_bytes=1, max_bytes=size_bytes, session_epoch=-1, topics=topics)


def _measure(case: Case, versions: Sequence[Version], rounds: int) -> dict[str, list[float]]:
    """One round that does not count, then `rounds` in turns."""
    found: dict[str, list[float]] = {each.name: [] for each in versions}
    for number in range(rounds + 1):
        for each in versions if number % 2 else reversed(versions):
            used_us = each.round_us(case)
            if number:
                found[each.name].append(used_us)
    return found


def _row(case: Case, found: dict[str, list[float]]) -> str:
    old, new = found["old"], found["new"]
    ratios = sorted(after / before for before, after in zip(old, new, strict=True))
    quarter = len(ratios) // 4
    spread = f"{ratios[quarter]:.2f} to {ratios[-1 - quarter]:.2f}"
    median = statistics.median
    return f"| {case.name} | {median(old):.1f} | {median(new):.1f} | {median(ratios):.2f} | {spread} |"


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", type=Path, help="a checkout of the earlier commit")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--print-only", action="store_true", help="write no results")
    options = parser.parse_args(arguments)
    new = Path(__file__).parents[1]
    base = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
    directory = Path(tempfile.mkdtemp(prefix="kafka-harness-versions-", dir=base))
    facts = host_facts(directory)
    rows, samples = [], {}
    try:
        with ExitStack() as stack:
            versions = []
            for name, checkout in (("old", options.old.resolve()), ("new", new)):
                versions.append(Version(name, checkout, directory / name))
                stack.callback(versions[-1].close)
            for case in _cases(versions, random.Random(1)):
                if options.only in case.name:
                    samples[case.name] = _measure(case, versions, options.rounds)
                    rows.append(_row(case, samples[case.name]))
                    print(rows[-1], flush=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    commits = {"old": _commit(options.old), "new": _commit(new)}
    page = _page(rows, commits, facts, options.rounds)
    if not options.print_only:
        path = RESULTS / f"{datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}-broker-versions"
        path.with_suffix(".md").write_text(page)
        document = {"commits": commits, "facts": facts, "rounds": options.rounds, "us_a_request": samples}
        path.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
    return 0


def _page(rows: Sequence[str], commits: dict[str, str], facts: dict[str, str], rounds: int) -> str:
    kept = ("processor", "memory", "kernel", "load average at the start")
    return "\n".join(
        [
            f"# Two versions of the reference broker: {commits['old']} and {commits['new']}",
            "",
            "`python -m benchmarks.versions`: processor time of the event loop, in microseconds a request, medians of "
            f"{rounds} rounds that took turns; the ratio is the median of the rounds' ratios, then its middle half. "
            "Logs lie in memory. On a host that does other things each figure is higher than on a quiet one; ratios "
            "suffer less.",
            "",
            *[f"- {name}: {facts[name]}" for name in kept if name in facts],
            "",
            "| request | old us | new us | ratio | middle half |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
