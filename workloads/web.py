"""Locust's own web view of a running cell, on loopback: its tables, charts and its Stop button.

The figures are Locust's: whole milliseconds, folded in twice a second. Stop ends the cell as SIGTERM does; starting and
changing the number of users is refused, for both are the plan's.
Shown by tests/workloads/test_workloads_web.py.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import gevent
from flask import request
from locust.stats import stats_history

HOST = "127.0.0.1"


class WebError(RuntimeError):
    """The web view cannot be served."""


def serve(environment: Any, port: int, on_stop: Callable[[], None]) -> Callable[[], None]:
    """Start serving the environment, whose runner exists; returns how to end it. WebError when the port is taken.

    `environment` is Locust's, which has no usable types.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the cell before may have ended a moment ago
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise WebError(
                f"Locust's web view needs port {port} on {HOST}: {error.strerror}; choose another"
            ) from error
    web_ui = environment.create_web_ui(host=HOST, port=port, delayed_start=True)
    web_ui.app.before_request(_refuse_swarm)
    web_ui.start()
    history = gevent.spawn(stats_history, environment.runner)  # what the charts are drawn from
    is_serving = True

    def stopped(**_event: Any) -> None:
        if is_serving:
            on_stop()

    environment.events.test_stop.add_listener(stopped)

    def end() -> None:
        nonlocal is_serving
        is_serving = False
        history.kill()
        web_ui.stop()

    return end


def _refuse_swarm() -> tuple[dict[str, object], int] | None:
    """Before each request; None lets it pass."""
    if request.path.rstrip("/").endswith("/swarm"):
        return {"success": False, "message": "the number of users is that of the suite's workload"}, 409
    return None
