"""A cluster that the harness did not start: whether it answers and lets topics be made, and the consent to load it.

Before any load is sent, what the run will do stands on the screen. On a terminal it asks once. Without a terminal
nobody can answer, so `--yes` must have been given. A cluster of `harness cluster up` is not a stranger's. Shown by
tests/harness/test_harness_strangers_cluster.py.
"""

from __future__ import annotations

import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from broker.door.protocol import ErrorCode, error_name
from harness.cli.arguments.run_options import RunOptions
from harness.cli.clusters.cluster_state import StateProblem, read_state, state_directory
from harness.cli.environment.preflight import check_cluster
from harness.cli.planning.plan_text import counted, counted_cells, minutes, seconds_of
from harness.clusters.base import Address
from harness.clusters.external import PROBE_TIMEOUT_S, parse_bootstrap
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.probe import first_answer
from harness.clusters.security import read_security
from harness.errors import EnvironmentFault, ExitCode, HarnessError, UsageError
from harness.planned_cell import PlannedCell
from harness.suite import Suite
from harness.terminal.tables import print_fitting

Requests = Sequence[tuple[Suite, Sequence[PlannedCell]]]
_MARK: Final = "harness-"  # with which every name of a run begins
_TRIED_FOR_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides, beside its user, whether a topic can be made."""

    partitions: int
    replication_factor: int
    config: tuple[tuple[str, str], ...] = ()  # A policy of the cluster may ask for some.


_ANY: Final = Shape(1, 1)
# Brokers look at a user's rights first: who is told one of these may make topics.
_OF_SHAPE: Final = tuple(
    error_name(code)
    for code in (
        ErrorCode.invalid_partitions,
        ErrorCode.invalid_replication_factor,
        ErrorCode.invalid_config,
        ErrorCode.policy_violation,
    )
)


def shapes_of(requests: Requests) -> tuple[Shape, ...]:
    """Of the topics of a plan, each once."""
    cells = [cell for _, own in requests for cell in own]
    found = [_shape(cell.partitions, cell.replication_factor, cell.topic_config) for cell in cells]
    found += [
        _shape(suite.topic.partitions, suite.topic.replication_factor, suite.topic.config)
        for suite, _ in requests
        if suite.search is not None
    ]
    return tuple(dict.fromkeys(found))


def _shape(partitions: int, replication_factor: int, config: Mapping[str, str]) -> Shape:
    return Shape(partitions, replication_factor, tuple(sorted(config.items())))


def tried(bootstrap: str, client_config: Path | None, shapes: Sequence[Shape] = ()) -> str:
    """What was found: brokers, and that topics of all `shapes` may be made; without any, that one may. Nothing is made.
    EnvironmentFault or UsageError says what is wrong. Rights to write, read and delete show only with a topic."""
    addresses = parse_bootstrap(bootstrap)
    check_cluster(addresses, client_config)
    with tempfile.TemporaryDirectory() as scratch:
        security = None if client_config is None else read_security(client_config, Path(scratch))
        known = [replace(address, security=security) for address in addresses]
        brokers = first_answer(known, lambda probe: probe.broker_addresses() or None, timeout_s=PROBE_TIMEOUT_S) or {}
        at = [*brokers.values(), *known]
        # Not any topic beside those of the plan: a cluster may make none with one replica, and all of the plan.
        for shape in shapes or (_ANY,):
            refusal = _refusal(at, shape)
            if refusal and not refusal.startswith(_OF_SHAPE):
                raise EnvironmentFault(
                    f"--bootstrap-server {bootstrap}: a topic {_MARK}… may not be made there ({refusal}). A run makes "
                    "its own topics, so its user needs CREATE, WRITE, READ and DELETE on topics and groups with the "
                    f"prefix {_MARK}"
                )
            if refusal and shapes:
                raise EnvironmentFault(
                    f"--bootstrap-server {bootstrap}: a topic with {counted(shape.partitions, 'partition')} and "
                    f"{counted(shape.replication_factor, 'replica')} would not be made there ({refusal}). The suite "
                    "says how many, and its settings: --set topic.replication_factor=1, or --replication-factor 1 of "
                    "`harness bench`"
                )
    return f"{counted(len(brokers), 'broker')} at {bootstrap}, topics may be made"


def _refusal(addresses: Sequence[Address], shape: Shape) -> str:
    """Why no topic of ours would be made, in a broker's words. Empty if one would."""
    deadline = time.monotonic() + _TRIED_FOR_S
    admin = Admin(lambda: addresses, should_stop=lambda: time.monotonic() > deadline)
    name = f"{_MARK}{secrets.token_hex(5)}-tried"
    return admin.refusal_of_topic(name, shape.partitions, shape.replication_factor, dict(shape.config))


# --- consent ----------------------------------------------------------------------------------------------------------


def require_consent(requests: Requests, options: RunOptions, *, is_agreed: bool) -> None:
    """Says what the run will do there, and asks once. UsageError if nobody agrees, or if nobody can be asked."""
    assert options.bootstrap_server is not None, "the plan asks for it"
    if _is_up_from_here(options.bootstrap_server):
        return
    for line in what_it_will_do(requests, options):
        print_fitting(line, to_stderr=True, hanging=2)
    if is_agreed:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("nobody can be asked here whether that cluster may be loaded: give --yes if it may")
    print("May it be loaded? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was sent")


def what_it_will_do(requests: Requests, options: RunOptions) -> Iterator[str]:
    cells = [cell for _, own in requests for cell in own]
    topics = sum(cell.workload.topics * (2 if cell.workload.has_copiers else 1) for cell in cells)
    lasts_s = sum(seconds_of(suite, own, options) for suite, own in requests)
    yield f"{options.bootstrap_server} was not started by the harness. This run of {counted_cells(len(cells))} will"
    them = "them with their" if topics > 1 else "it with its"
    yield f"- make {counted(topics, 'topic')} {_MARK}…, and delete {them} groups"
    yield f"- send {_load(requests)}, for about {minutes(lasts_s)}"
    for locust in dict.fromkeys(cell.workload.locust for cell in cells):
        if locust is not None:
            yield f"- run {counted(locust.users, 'user')} of {locust.file}, which may send what it likes"
    if any(cell.kind == "chaos" for cell in cells):
        where = "through proxies here, break the connections of its own clients"
        yield f"- {where}{', and break brokers as far as fault hosts permit' if options.fault_hosts else ''}"


def _load(requests: Requests) -> str:
    cells = [cell for _, own in requests for cell in own]
    paced = [cell.workload.rate_per_s for cell in cells if cell.kind != "ceiling"]
    paced += [suite.search.high_per_s for suite, _ in requests if suite.search is not None]
    told = [f"up to {max(paced):,.0f} records/s"] if paced else []
    if any(cell.kind == "ceiling" for cell in cells):
        told.append("as much as it takes (cells of the ceiling)")
    sizes = [cell.workload.record_size_bytes for cell in cells]
    return " and ".join(told) + (f", of up to {max(sizes):,} bytes each" if sizes else "")


def _is_up_from_here(bootstrap: str) -> bool:
    """Whether it is a cluster of `harness cluster up`."""
    asked = {str(address) for address in parse_bootstrap(bootstrap)}
    for path in sorted(state_directory().glob("*.json")):
        try:
            state = read_state(path)
        except (StateProblem, OSError):
            continue
        started = {str(address) for address in parse_bootstrap(state.bootstrap_servers)}
        if asked <= started and all(broker.is_running() for broker in state.brokers):
            return True
    return False


# --- on its own -------------------------------------------------------------------------------------------------------


def show_cluster(bootstrap: str, client_config: Path | None, shapes: Sequence[Shape] = ()) -> ExitCode:
    """For `doctor` and `--dry-run`: one line, ok or FAIL."""
    try:
        print_fitting(f"ok       cluster: {tried(bootstrap, client_config, shapes)}", hanging=len("ok       "))
    except HarnessError as error:
        print_fitting(f"FAIL     cluster: {error}", hanging=len("FAIL     "))
        return error.exit_code
    return ExitCode.PASS
