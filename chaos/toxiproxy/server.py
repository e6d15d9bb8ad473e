"""The embedded Toxiproxy server: `python -m chaos.toxiproxy.server -host 127.0.0.1 -port 8474 [--wire-log FILE]`.

It replaces `toxiproxy-server`. It has the same HTTP API and options, and Kafka toxics in addition to the others. With
`--strict`, as the harness starts it, it refuses input that the original accepts although it cannot work (`inputs.py`).
It prints nothing on stdout. SIGTERM and SIGINT end it with exit code 0. What it writes on stderr goes there beside the
traffic (`side_file.py`), so it never waits for whoever reads it, and serves on if nobody can.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import importlib
import os
import random
import resource
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final, TextIO, cast

from chaos.toxiproxy.api import VERSION, Api
from chaos.toxiproxy.http import HttpServer
from chaos.toxiproxy.inputs import Strictness
from chaos.toxiproxy.kafka.exchange_log import ExchangeLog
from chaos.toxiproxy.kafka.wire_log import WireLog
from chaos.toxiproxy.pump import AFTER_CHUNKS, Pump
from chaos.toxiproxy.side_file import SideFile, SideText

_STDERR: Final = 2  # its descriptor
GC_THRESHOLD = 10_000  # new objects that may be garbage: those of some two hundred connections


async def serve(
    *,
    host: str,
    port: int,
    api: Api,
    config: Path | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. `config` is a file with proxies in the form of `/populate`."""
    if config is not None:
        await _populate(api, config)
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


async def _populate(api: Api, config: Path) -> None:
    """Create the proxies of the file. If it cannot be used, this is reported, and the server starts all the same, like
    the original."""
    try:
        answer = await api.handle("POST", "/populate", config.read_bytes())
    except OSError as error:
        print(f"event=config_failed file={config} cause={error}", file=sys.stderr, flush=True)
        return
    if answer.status != HTTPStatus.CREATED:
        print(f"event=config_failed file={config} cause={answer.content().decode()}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="chaos.toxiproxy.server", description="Toxiproxy's HTTP API, with Kafka toxics", allow_abbrev=False
    )
    # Go's programs take one dash or two.
    parser.add_argument("-host", "--host", default="localhost")
    parser.add_argument("-port", "--port", type=int, default=8474, help="0 takes a free one and names it on stderr")
    parser.add_argument("-config", "--config", type=Path, help="JSON file with proxies to make at the start")
    parser.add_argument("-seed", "--seed", type=int, help="of toxicity, jitter and slices")
    parser.add_argument("-version", "--version", action="version", version=f"toxiproxy-server version {VERSION}")
    parser.add_argument(
        "-proxy-metrics", "--proxy-metrics", action="store_true", help="bytes of each proxy at /metrics, for Prometheus"
    )
    parser.add_argument(
        "-runtime-metrics", "--runtime-metrics", action="store_true", help="this process's CPU and memory at /metrics"
    )
    parser.add_argument("--strict", action="store_true", help="refuse attributes and addresses that cannot be meant")
    parser.add_argument(
        "--pump-after",
        type=int,
        default=AFTER_CHUNKS,
        metavar="CHUNKS",
        help="that a link without toxics carries before it enters the pump, which saves processor time; 0: never",
    )
    parser.add_argument("--wire-log", type=Path, help="append one JSON line per Produce exchange to this file")
    parser.add_argument("--exchange-log", type=Path, help="append one JSON line per exchange of proxies that are asked")
    options = parser.parse_args(arguments)
    allow_descriptors()
    _collect_seldom()
    with _stderr_aside():
        return _serve_until_told(options)


def _serve_until_told(options: argparse.Namespace) -> int:
    try:
        with (
            contextlib.closing(WireLog(options.wire_log)) as wire_log,
            contextlib.closing(ExchangeLog(options.exchange_log)) as exchange_log,
            contextlib.closing(Pump(options.pump_after)) as pump,
        ):
            api = Api(
                wire_log=wire_log,
                exchange_log=exchange_log,
                rng=random.Random(options.seed),
                strictness=Strictness.STRICT if options.strict else Strictness.ORIGINAL,
                has_proxy_metrics=options.proxy_metrics,
                has_runtime_metrics=options.runtime_metrics,
                pump=pump if options.pump_after > 0 else None,
            )
            _runner()(serve(host=options.host, port=options.port, api=api, config=options.config))
    except OSError as error:
        print(f"event=failed host={options.host} port={options.port} cause={error}", file=sys.stderr)
        return 3
    return 0


@contextlib.contextmanager
def _stderr_aside() -> Iterator[None]:
    """Let nothing that is written on sys.stderr, by whatever library, wait or fail inside."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass  # standard streams were closed at the start; without this a socket would get the number of one
    os.close(descriptor)
    found, file = sys.stderr, SideFile(_STDERR)
    sys.stderr = cast(TextIO, SideText(file))
    try:
        yield
    finally:
        sys.stderr = found
        file.close()


def _collect_seldom() -> None:
    """What was imported stays, so no collection looks at it again. Each connection makes some dozens of objects. With
    Python's own limits, collections took half of the time in which a thousand proxies are made."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


def allow_descriptors() -> None:
    """Raise the soft limit to the hard limit, as Go's runtime does. The soft limit is often 1,024, and 500 proxies use
    that up."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):  # some systems refuse to set an unlimited value
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _runner() -> Callable[[Coroutine[None, None, None]], None]:
    """uvloop's `run` if it is installed, because it is faster. Otherwise asyncio's."""
    try:
        run: Callable[[Coroutine[None, None, None]], None] = importlib.import_module("uvloop").run
    except ImportError:
        return asyncio.run
    return run


if __name__ == "__main__":
    sys.exit(main())
