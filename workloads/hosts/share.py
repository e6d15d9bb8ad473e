"""`python -m workloads --share`: the load process of one cell on a load host, driven by the agent beside it.

One plan on stdin, then one command a line; states and the report on stdout, as JSON lines. The users, their schedule
and their files are those of any load process. It ends when its stdin does, so it does not outlive the agent. Shown by
tests/workloads/test_workloads_hosts.py.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from typing import Any, Final

import gevent

from workloads.context import Phases
from workloads.fleet import Fleet, FleetError
from workloads.load_process import LOOK_S
from workloads.model import Plan
from workloads.payloads import PayloadError
from workloads.readers_apart import fleet_of

TELL_S: Final = 0.25
_END: Final = "end"
Json = dict[str, Any]  # a line of stdin or stdout


def run_share(plan: Plan) -> int:
    try:
        # Workers of several load hosts may be on one machine: each takes another core.
        fleet = fleet_of(plan, min(plan.producers_here, default=0))
        fleet.start_users()
    except (PayloadError, FleetError, OSError) as error:
        _say({"kind": "problem", "message": str(error)})
        return 1
    commands: deque[Json] = deque()
    threading.Thread(target=_read_commands, args=(commands,), daemon=True).start()
    done: set[str] = set()  # what it was told and has done, for the agent's master to see
    next_s = 0.0
    try:
        while True:
            while commands:
                command = commands.popleft()
                if command["do"] == _END:
                    return 0
                _carry_out(fleet, command, done)
            state = fleet.state()
            if time.monotonic() >= next_s:
                next_s = time.monotonic() + TELL_S
                _say({"kind": "state", "done": sorted(done), "state": state.model_dump(mode="json")})
            gevent.sleep(LOOK_S)
    finally:
        fleet.stop_sending(time.monotonic_ns())
        fleet.stop_receiving()
        fleet.quit()


def _carry_out(fleet: Fleet, command: Json, done: set[str]) -> None:
    """Each at most once, except for the report: the master asks again for what it has not seen done."""
    do = str(command["do"])
    if do == "report":
        if do not in done:
            fleet.settle()
        _say({"kind": "report", "reports": [one.model_dump(mode="json") for one in fleet.reports()]})
    elif do in done:
        return
    elif do == "begin":
        fleet.begin(Phases(**command["phases"]))
    elif do == "stop_sending":
        fleet.stop_sending(int(command["drain_deadline_ns"]))
    elif do == "stop_receiving":
        fleet.stop_receiving()
    done.add(do)


def _read_commands(commands: deque[Json]) -> None:
    for line in sys.stdin:
        if line.strip():
            commands.append(json.loads(line))
    commands.append({"do": _END})


def _say(document: Json) -> None:
    sys.stdout.write(json.dumps(document, separators=(",", ":")) + "\n")
    sys.stdout.flush()
