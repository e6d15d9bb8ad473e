"""The embedded Toxiproxy server: `python -m chaos.toxiproxy.server --host 127.0.0.1 --port 8474 [--wire-log FILE]`.

Speaks Toxiproxy's HTTP API, adds the Kafka toxics. Prints nothing on stdout; SIGTERM and SIGINT end it with exit 0.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import random
import resource
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

from chaos.toxiproxy.api import VERSION, Api
from chaos.toxiproxy.http import HttpServer
from chaos.toxiproxy.kafka.wire_log import WireLog


async def serve(*, host: str, port: int, wire_log: WireLog, seed: int | None) -> None:
    """Until SIGTERM or SIGINT."""
    api = Api(wire_log=wire_log, rng=random.Random(seed))
    http = HttpServer(api)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    bound_port = await http.start(host, port)
    print(f"event=listening host={host} port={bound_port} version={VERSION}", file=sys.stderr, flush=True)
    await stop.wait()
    http.stop()
    api.stop()
    await asyncio.sleep(0)  # lets the transports close
    wire_log.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="chaos.toxiproxy.server", description="Toxiproxy's HTTP API, with Kafka toxics"
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8474, help="0 takes a free one and names it on stderr")
    parser.add_argument("--wire-log", type=Path, help="append one JSON line per Produce exchange to this file")
    parser.add_argument("--seed", type=int, help="of toxicity, jitter and slices")
    parser.add_argument("--version", action="version", version=VERSION)
    options = parser.parse_args(arguments)
    allow_descriptors()
    try:
        wire_log = WireLog(options.wire_log)
        _runner()(serve(host=options.host, port=options.port, wire_log=wire_log, seed=options.seed))
    except OSError as error:
        print(f"event=failed host={options.host} port={options.port} cause={error}", file=sys.stderr)
        return 3
    return 0


def allow_descriptors() -> None:
    """All that the hard limit allows, as Go's runtime does. The soft limit is often 1,024, and 500 proxies use
    that up."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):  # some systems refuse what they call unlimited
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _runner() -> Callable[[Coroutine[None, None, None]], None]:
    """uvloop's `run` where it is installed: it moves more bytes; else asyncio's."""
    try:
        run: Callable[[Coroutine[None, None, None]], None] = importlib.import_module("uvloop").run
    except ImportError:
        return asyncio.run
    return run


if __name__ == "__main__":
    sys.exit(main())
