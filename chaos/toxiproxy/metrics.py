"""The metrics at `/metrics` for Prometheus: bytes of each proxy (`-proxy-metrics`), and the process
(`-runtime-metrics`).

Names, labels and form are the original's (text format 0.0.4). The original counts the bytes of a connection when it
ends. This server also counts those of open connections, so that long connections are visible.
"""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final, NamedTuple

from chaos.toxiproxy.answer import Answer

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_STAT_FIELDS_BEFORE_START: Final = 19  # after the command's name: `starttime` of proc(5), in clock ticks since boot


class Route(NamedTuple):
    """One direction of the connections of a proxy, with the addresses of the proxy when they began. The fields are in
    the order of Prometheus's labels."""

    direction: str
    listener: str
    proxy: str
    upstream: str


@dataclass(slots=True)
class Traffic:
    """Bytes of one direction of one connection."""

    received_bytes: int = 0
    sent_bytes: int = 0


class ProxyMetrics:
    """Bytes by route. A connection that has ended is added to the sum of its route, so memory grows only with the
    number of routes."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[Route, Traffic]] = {}  # The key is the id() of the traffic.
        self._received: Counter[Route] = Counter()
        self._sent: Counter[Route] = Counter()

    def begin(self, route: Route, traffic: Traffic) -> None:
        self._open[id(traffic)] = (route, traffic)

    def end(self, traffic: Traffic) -> None:
        route, _ = self._open.pop(id(traffic))
        self._add(self._received, self._sent, route, traffic)

    def lines(self) -> Iterable[str]:
        received, sent = self._received.copy(), self._sent.copy()
        for route, traffic in self._open.values():
            self._add(received, sent, route, traffic)
        for name, found in (("received", received), ("sent", sent)):
            values = {_labels(route): float(value) for route, value in sorted(found.items())}
            yield from _family(f"toxiproxy_proxy_{name}_bytes_total", "counter", "", values)

    @staticmethod
    def _add(received: Counter[Route], sent: Counter[Route], route: Route, traffic: Traffic) -> None:
        received[route] += traffic.received_bytes
        sent[route] += traffic.sent_bytes


def handler_lines() -> Iterable[str]:
    """Metrics of the endpoint itself, which Go's library always adds. These errors cannot occur here."""
    text = "Total number of internal errors encountered by the promhttp metric handler."
    values = {'{cause="encoding"}': 0.0, '{cause="gathering"}': 0.0}
    yield from _family("promhttp_metric_handler_errors_total", "counter", text, values)


def process_lines() -> Iterable[str]:
    """Metrics of this process, with Prometheus's standard names. Metrics of the Go runtime do not exist here."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()
    page_bytes = resource.getpagesize()
    status = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    ticks = int(status[_STAT_FIELDS_BEFORE_START])
    started_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    gauges = (
        ("max_fds", "Maximum number of open file descriptors.", resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        ("open_fds", "Number of open file descriptors.", len(os.listdir("/proc/self/fd")) - 1),
        ("resident_memory_bytes", "Resident memory size in bytes.", int(pages[1]) * page_bytes),
        ("start_time_seconds", "Start time of the process since unix epoch in seconds.", round(started_s, 2)),
        ("virtual_memory_bytes", "Virtual memory size in bytes.", int(pages[0]) * page_bytes),
    )
    text = "Total user and system CPU time spent in seconds."
    yield from _family("process_cpu_seconds_total", "counter", text, {"": used.ru_utime + used.ru_stime})
    for name, text, value in gauges:
        yield from _family(f"process_{name}", "gauge", text, {"": float(value)})


def metrics_answer(sources: Iterable[Callable[[], Iterable[str]]]) -> Answer:
    text = "".join(f"{line}\n" for source in sources for line in source())
    return Answer(status=200, text=text, content_type=CONTENT_TYPE)


def _family(name: str, kind: str, text: str, values: dict[str, float]) -> Iterable[str]:
    if not values:
        return
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values.items():
        yield f"{name}{labels} {go_float(value)}"


def _labels(route: Route) -> str:
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in route._asdict().items()) + "}"


def go_float(value: float) -> str:
    """The shortest text for `value`, as Go's strconv writes it: from a million on with an exponent.

    >>> go_float(999999.0), go_float(1234567.0), go_float(0.00001)
    ('999999', '1.234567e+06', '1e-05')
    """
    if value == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "a finite number"
    point = len(digits) + exponent - 1  # exponent of the first digit
    text = "".join(map(str, digits))
    minus = "-" if sign else ""
    if not -4 <= point < 6:
        tail = f".{text[1:]}" if len(text) > 1 else ""
        return f"{minus}{text[0]}{tail}e{'-' if point < 0 else '+'}{abs(point):02d}"
    return f"{minus}{Decimal((0, digits, exponent)):f}"
