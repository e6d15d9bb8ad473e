"""The embedded Toxiproxy server beside the real one and beside no proxy, in one run, by turns.

`python -m benchmarks.proxies [--quick]` writes results/<date>-proxies.json and .md and prints the page. It measures:

- round trips of 64 bytes
- a stream of bytes in one direction
- connecting
- 1,000 proxies, and 500 and 1,000 connections at once (many_proxies.py)

Both ends of a connection are outside of the proxy, so only the proxy differs. The crowds need a C compiler. Exit code 0
if everything was measured, whatever the ratios are.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.many_proxies import CROWDS, CrowdEnds, crowd_ends, crowd_samples, through_many
from chaos.toxiproxy.lookup import RunningServer, ServerUnavailable, find_binary, start_embedded, start_real
from chaos.toxiproxy.server import allow_descriptors
from chaos.toxiproxy.states import ProxySpec
from harness.clusters.kafka.jars import cache_directory

RESULTS: Final = Path(__file__).with_name("results")
MESSAGE: Final = b"m" * 64
CHUNK: Final = b"c" * 262_144
ECHO, SINK = b"E", b"S"
TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    rounds: int
    round_trips: int
    stream_bytes: int
    connections: int
    crowd_trips: int  # round trips of each of the connections that are open at once
    many_rounds: int  # rounds that make a thousand proxies


FULL: Final = Effort(
    rounds=7, round_trips=4_000, stream_bytes=512 << 20, connections=300, crowd_trips=100, many_rounds=7
)
QUICK: Final = Effort(rounds=2, round_trips=300, stream_bytes=32 << 20, connections=30, crowd_trips=3, many_rounds=1)


def serve() -> None:
    """The far end: the first byte of a connection says whether it echoes or counts."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    buffer = bytearray(1 << 20)
    with connection, contextlib.suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        kind, count = connection.recv(1), 0
        wanted = int.from_bytes(connection.recv(8, socket.MSG_WAITALL)) if kind == SINK else -1
        while received := connection.recv_into(buffer):
            count += received
            if kind == ECHO:
                connection.sendall(memoryview(buffer)[:received])
            elif count == wanted:  # told, not ended by a half-close: Toxiproxy ends both directions then
                connection.sendall(b"!")


@contextlib.contextmanager
def far_end() -> Iterator[tuple[str, int]]:
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.proxies", "--serve"], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield "127.0.0.1", int(process.stdout.readline())
    finally:
        process.kill()
        process.wait(10)


def _connect(address: tuple[str, int], kind: bytes) -> socket.socket:
    connection = socket.create_connection(address, timeout=TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(kind)
    return connection


def round_trips_us(address: tuple[str, int], count: int) -> list[float]:
    with _connect(address, ECHO) as connection:
        times = []
        for _ in range(count):
            began_ns = time.perf_counter_ns()
            connection.sendall(MESSAGE)
            left = len(MESSAGE)
            while left:
                left -= len(connection.recv(left))
            times.append((time.perf_counter_ns() - began_ns) / 1000)
        return times


def stream_mb_per_s(address: tuple[str, int], size: int) -> float:
    with _connect(address, SINK) as connection:
        connection.sendall((size // len(CHUNK) * len(CHUNK)).to_bytes(8))
        began_s = time.perf_counter()
        for _ in range(size // len(CHUNK)):
            connection.sendall(CHUNK)
        assert connection.recv(1) == b"!", "every byte arrived"
        return size / (time.perf_counter() - began_s) / 1e6


def connects_per_s(address: tuple[str, int], count: int) -> float:
    """To the first byte back, one after the other, all kept open."""
    with contextlib.ExitStack() as stack:
        began_s = time.perf_counter()
        for _ in range(count):
            connection = stack.enter_context(_connect(address, ECHO))
            connection.sendall(b"x")
            assert connection.recv(1) == b"x"
        return count / (time.perf_counter() - began_s)


def measure(
    paths: dict[str, tuple[str, int]], servers: dict[str, RunningServer], ends: CrowdEnds, effort: Effort
) -> dict[str, dict[str, list[float]]]:
    """Samples by path and figure. Each round takes the paths in an order of its own."""
    figures: dict[str, Callable[[tuple[str, int]], list[tuple[str, float]]]] = {
        "round trip": lambda address: _quantiles(round_trips_us(address, effort.round_trips)),
        "stream": lambda address: [("stream MB/s", stream_mb_per_s(address, effort.stream_bytes))],
        "connect": lambda address: [("connections/s", connects_per_s(address, effort.connections))],
    }
    source = random.Random(1)
    samples: dict[str, dict[str, list[float]]] = {name: {} for name in paths}
    for address in paths.values():  # not counted: first use of everything
        round_trips_us(address, effort.round_trips // 4)
    for number in range(effort.rounds):
        print(f"round {number + 1} of {effort.rounds}", file=sys.stderr)
        for name in source.sample(list(paths), len(paths)):
            for figure in figures.values():
                for label, value in figure(paths[name]):
                    samples[name].setdefault(label, []).append(value)
    for number in range(effort.many_rounds):
        print(f"many proxies, round {number + 1} of {effort.many_rounds}", file=sys.stderr)
        for name in source.sample(list(paths), len(paths)):
            if name in servers:
                found = through_many(servers[name], ends, effort.crowd_trips)
            else:
                found = [each for size in CROWDS for each in crowd_samples([ends.far] * size, ends, effort.crowd_trips)]
            for label, value in found:
                samples[name].setdefault(label, []).append(value)
    return samples


def _quantiles(times: list[float]) -> list[tuple[str, float]]:
    ordered = sorted(times)
    return [("round trip p50 us", ordered[len(ordered) // 2]), ("round trip p99 us", ordered[len(ordered) * 99 // 100])]


def render(samples: dict[str, dict[str, list[float]]], facts: dict[str, str]) -> str:
    """A table of medians, and the embedded server's ratio to the real one, more than 1 being better."""
    lines = ["# Toxiproxy servers: embedded and real, in one run", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    names = list(samples)
    lines += ["", f"| median of rounds | {' | '.join(names)} | embedded / real |", f"|---|{'---:|' * (len(names) + 1)}"]
    for label in dict.fromkeys(label for of_path in samples.values() for label in of_path):
        medians = {name: statistics.median(samples[name][label]) for name in names if label in samples[name]}
        ratio = "not measured"
        if {"embedded", "real"} <= set(medians):
            higher_is_better = label.endswith("/s")
            mine, other = medians["embedded"], medians["real"]
            ratio = f"{(mine / other if higher_is_better else other / mine):.2f}"
        shown = " | ".join(_shown(medians.get(name)) for name in names)
        lines.append(f"| {label} | {shown} | {ratio} |")
    lines += ["", "A ratio above 1: the embedded server is better. `direct` is the same without a proxy."]
    return "\n".join(lines) + "\n"


def _shown(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="only shows that it works; writes nothing")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
    effort = QUICK if options.quick else FULL
    allow_descriptors()  # Both ends of a crowd need them. The servers inherit the limit.
    servers: dict[str, RunningServer] = {}
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(far_end())
        ends = stack.enter_context(crowd_ends(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
        servers["embedded"] = start_embedded(seed=1)
        stack.callback(servers["embedded"].stop)
        with contextlib.suppress(ServerUnavailable):
            binary = find_binary(os.environ.get("HARNESS_TOXIPROXY_SERVER"), [cache_directory() / "bin"])
            if binary is not None:
                servers["real"] = start_real(binary)
                stack.callback(servers["real"].stop)
        paths = {"direct": upstream}
        for name, server in servers.items():
            listen = server.client().create(ProxySpec(name="bench", upstream=f"{upstream[0]}:{upstream[1]}")).listen
            host, _, port = listen.rpartition(":")
            paths[name] = (host, int(port))
        load_before = os.getloadavg()[0]
        samples = measure(paths, servers, ends, effort)
    facts = {
        "cores": str(len(os.sched_getaffinity(0))),
        "load average before and after": f"{load_before:.1f}, {os.getloadavg()[0]:.1f}",
        "servers": ", ".join(f"{name} {server.version}" for name, server in servers.items()),
        "rounds": str(effort.rounds),
    }
    page = render(samples, facts)
    print(page)
    if not options.quick:
        stem = RESULTS / f"{datetime.date.today()}-proxies"
        stem.with_suffix(".md").write_text(page)
        stem.with_suffix(".json").write_text(json.dumps({"facts": facts, "samples": samples}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
