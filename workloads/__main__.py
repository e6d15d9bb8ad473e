"""`python -m workloads`: one plan on stdin, events on stdout (see `docs/internals/contracts.md`), then the end.

Locust is imported without its monkey patching. User loops are real OS threads, and the client libraries in them need
real sockets, locks and threads. Only the main thread, which sends nothing, runs Locust's hub.
"""

from __future__ import annotations

import os

os.environ["LOCUST_SKIP_MONKEY_PATCH"] = "1"

import json
import signal
import sys
import threading

import gevent
from pydantic import ValidationError

from runlog.records.codec import to_json
from runlog.records.load import LoadError, LoadEvent, Ready
from workloads import clients  # noqa: F401  (imported before "ready", so that a plan starts at once)
from workloads.affinity import keep_to_one_core
from workloads.conductor import Conductor
from workloads.fleet import FleetError, run_worker
from workloads.model import Plan
from workloads.payloads import PayloadError
from workloads.readers_apart import fleet_of
from workloads.readiness import LoadFailed
from workloads.web import WebError

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
_SWITCH_INTERVAL_S = 0.0002  # with the default of 5 ms, a sending thread could be that late behind a receiving one


def emit(event: LoadEvent) -> None:
    sys.stdout.write(json.dumps(to_json(event), separators=(",", ":")) + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    if len(arguments) == 3 and arguments[0] == "--worker":
        return _run_as_worker(int(arguments[1]), int(arguments[2]))
    if arguments in (["--hub"], ["--agent"], ["--share"], ["--fault-hub"], ["--fault-agent"], ["--depot"]):
        return _run_for_hosts(arguments[0])
    if arguments:
        sys.stderr.write("usage: python -m workloads    (reads one plan, a line of JSON, from stdin)\n")
        return EXIT_USAGE
    emit(Ready())
    line = sys.stdin.readline()
    if not line.strip():
        return EXIT_OK
    try:
        plan = Plan.model_validate_json(line)
    except ValidationError as error:
        emit(LoadError(message=f"the plan is not valid: {error}"))
        return EXIT_USAGE
    return _run(plan)


def _run_for_hosts(part: str) -> int:
    """One of the processes of load or faults on other hosts (workloads/hosts). The first line of stdin is for each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it reaches the whole process group; our parent decides
    line = sys.stdin.readline()
    if not line.strip():
        return EXIT_OK
    # Imported here, because a load on one host does not need them.
    if part == "--hub":
        from workloads.hosts.hub import run_hub

        return run_hub(line, emit)
    if part == "--agent":
        from workloads.hosts.agent import run_agent

        return run_agent(line)
    if part == "--fault-hub":
        from workloads.hosts.fault_hub import run_fault_hub

        return run_fault_hub(line)
    if part == "--fault-agent":
        from workloads.hosts.fault_agent import run_fault_agent

        return run_fault_agent(line)
    if part == "--depot":
        from workloads.hosts.depot import run_depot

        return run_depot(line)
    from workloads.hosts.share import run_share

    plan = Plan.model_validate_json(line)
    return run_share(plan)


def _run(plan: Plan) -> int:
    try:
        fleet = fleet_of(plan)
    except PayloadError as error:
        emit(LoadError(message=str(error)))
        return EXIT_FAILED
    conductor = Conductor(plan, fleet, emit)
    for number in (signal.SIGTERM, signal.SIGINT):
        gevent.signal_handler(number, conductor.request_stop)
    try:
        conductor.run()
    except (LoadFailed, FleetError, WebError) as error:
        emit(LoadError(message=str(error)))
        return EXIT_FAILED
    except Exception as error:  # the process entry: our parent must learn why
        emit(LoadError(message=f"{type(error).__name__}: {error}"))
        raise
    return EXIT_OK


def _run_as_worker(port: int, number: int) -> int:
    # Ctrl-C reaches the whole process group, but only the master decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    plan = Plan.model_validate_json(sys.stdin.readline())
    keep_to_one_core(plan.client, number)
    closed = threading.Event()

    def watch_stdin() -> None:
        sys.stdin.read()
        closed.set()

    threading.Thread(target=watch_stdin, daemon=True).start()
    run_worker(plan, port, closed.is_set)
    return EXIT_OK


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    # Threads of a client library that hangs on a dead cluster must not keep the process alive. Everything is written by
    # now.
    os._exit(code)
