"""`python -m workloads.own_users`: the users of somebody's locustfile, in a process of their own, beside a cell's load.

A line of JSON on stdin says which file, how many users, and where the cluster is (`OwnUsersPlan`). Locust loads the
file as its own command does, and starts and stops the users. A shape class of the file decides instead of the numbers.
The users tell by `events.request` what each request took. It goes into the cell's stats.jsonl: a line for each second
and name while they run, and the whole when they have ended.

The file's code finds the cluster in the environment (KAFKA_BOOTSTRAP_SERVERS, KAFKA_TOPIC), as `host` of its users, and
with the client's security settings as `environment.kafka`. Locust's monkey patching is on, as its users expect: to
import it does that. Shown by tests/harness/test_harness_own_users.py.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
from locust import events
from locust.env import Environment
from locust.util.load_locustfile import load_locustfile

from runlog.records.lines import STATS, RecordWriter
from workloads.model import OWN_USERS_START, OWN_USERS_STOP_S, OwnUsersPlan
from workloads.own_requests import Requests


def run(own: OwnUsersPlan, should_stop: Callable[[], bool]) -> None:
    """Until `should_stop`, or until a shape class of the file is at its end."""
    os.environ["KAFKA_BOOTSTRAP_SERVERS"], os.environ["KAFKA_TOPIC"] = own.bootstrap_servers, own.topic
    classes, shapes = load_locustfile(str(own.users.file))
    if not classes:
        raise ValueError(f"{own.users.file} has no User class")
    environment = Environment(
        user_classes=list(classes.values()),
        events=events,  # those to which the file's own listeners belong
        shape_class=shapes[0] if shapes else None,
        host=own.bootstrap_servers,
        stop_timeout=OWN_USERS_STOP_S / 2,
    )
    hooks: Any = environment.events  # Locust's own types stop here
    told: Any = environment
    told.kafka = {"bootstrap.servers": own.bootstrap_servers, **own.properties}
    runner = environment.create_local_runner()
    with RecordWriter(own.stats, STATS) as writer:
        requests = Requests(writer.append, lambda: (time.monotonic_ns() - own.t0_monotonic_ns) // 1_000)
        hooks.request.add_listener(requests.on_request)
        hooks.init.fire(environment=environment, runner=runner, web_ui=None)
        hooks.spawning_complete.add_listener(lambda **_told: print(OWN_USERS_START, flush=True))
        if environment.shape_class is not None:
            runner.start_shape()
        else:
            runner.start(own.users.users, spawn_rate=own.users.spawn_rate)
        while not should_stop() and runner.state not in ("stopped", "stopping"):
            gevent.sleep(0.1)
            requests.tick()
        requests.tell_whole()  # a user that waits in C may hold up the end until this process is killed
        with gevent.Timeout(OWN_USERS_STOP_S, False):
            runner.quit()
        hooks.quitting.fire(environment=environment, reverse=True)
        requests.finish()


def main() -> int:
    own = OwnUsersPlan.model_validate(json.loads(sys.stdin.readline()))
    stopped: list[int] = []
    gevent.signal_handler(signal.SIGTERM, lambda: stopped.append(signal.SIGTERM))
    try:
        run(own, lambda: bool(stopped))
    except Exception as error:  # the file is somebody's code: its words go to the cell, with the line
        sys.stderr.write(f"{_place(error, own.users.file)}{type(error).__name__}: {error}\n")
        return 1
    return 0


def _place(error: BaseException, file: Path) -> str:
    """The last line of the file that took part in the error."""
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f"{file}:{lines[-1]}: " if lines else ""


if __name__ == "__main__":
    sys.exit(main())
