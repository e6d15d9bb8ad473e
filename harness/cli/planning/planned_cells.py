"""From suites and options to the cells that will run. What can never work is refused here, before anything starts.

Shown by tests/harness/test_harness_cli.py and test_harness_setting_places.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import Final

from chaos.model import builtin_scenarios
from harness.cli.arguments.run_options import RunOptions
from harness.cli.planning.fitting import fitting, property_problem
from harness.clusters.base import IPV4_LOOPBACK
from harness.clusters.external import parse_bootstrap
from harness.clusters.proxies import check_proxy_choice
from harness.clusters.secured.access import check_security
from harness.clusters.security import read_properties
from harness.errors import UsageError
from harness.plan import build_plan, first_try
from harness.planned_cell import PlannedCell
from harness.release_needs import release_problem
from harness.replicas import check_replicas
from harness.run.generator.client_runtime import client_runtime
from harness.sasl_without_effect import check_mechanism
from harness.scenarios import cases_of, load_scenario, scenario_source
from harness.setting_places import check_scenario_settings, check_settings, near_client
from harness.settings_alone import CLIENT
from harness.suite import Suite
from harness.suite_source import nearest
from harness.terminal.tables import print_fitting
from harness.unknown_settings import settings_problem
from workloads.clients import is_client
from workloads.clients.process.library import is_process

ENGINES: Final = ("reference", "kafka", "docker", "external")


def plan_of(suite: Suite, options: RunOptions) -> tuple[PlannedCell, ...]:
    if options.engine not in ENGINES:
        raise UsageError(f"--cluster {options.engine}: no such cluster{nearest(options.engine, ENGINES)}")
    _check_engine(suite, options.engine)
    if suite.cluster.releases and options.engine != "kafka":
        told = ", ".join(suite.cluster.releases)
        print_fitting(
            f"without effect on --cluster {options.engine}: cluster.releases ({told})", to_stderr=True, hanging=2
        )
    if suite.cluster.host != IPV4_LOOPBACK and options.engine != "reference":
        raise UsageError(f"cluster.host {suite.cluster.host} is for --cluster reference, not for {options.engine}")
    check_proxy_choice(options.toxiproxy)
    client, sweep_client = options.client_of(suite), options.sweep_client_of(suite)
    for name, location in ((client, ("client",)), (sweep_client, ("sweep", "client"))):
        if not is_client(name):
            place = f"{suite.source.place_of(location)}: " if suite.source is not None and not options.client else ""
            raise UsageError(f"{place}client {name!r}: no such client{near_client(name)}")
    _check_varied_client(suite, options)
    cells = build_plan(suite, cases_of, seed=options.seed_of(suite), client=client, sweep_client=sweep_client)
    for name in dict.fromkeys([client, *(cell.client for cell in cells)]):
        if is_process(name):
            client_runtime(name)  # a program says itself which settings it takes, so it has to be there
    _check_settings(suite, (client, sweep_client), cells, options.engine)
    _check_place(suite, options)
    on_clusters = _on_clusters(suite, cells, options.engine)
    has_fault_hosts = options.fault_hosts is not None
    wanted = _wanted(fitting(on_clusters, options.engine, has_fault_hosts=has_fault_hosts), options.cells)
    for cell in wanted:
        check_security(cell.security, options.engine)
        _check_cell(suite, cell, options.engine)
    check_replicas(suite, [*wanted, *first_try(suite, client)])
    if not options.cells:
        check_mechanism(suite, [*wanted, *first_try(suite, client)])
    _tell_of_load_hosts(wanted, options)
    return wanted


def _check_varied_client(suite: Suite, options: RunOptions) -> None:
    if options.client and suite.sweep is not None and CLIENT in suite.sweep.vary:
        place = f"{suite.source.place_of(('sweep', 'vary', CLIENT))}: " if suite.source is not None else ""
        raise UsageError(
            f"{place}sweep.vary.client: the sweep varies the client, so --client {options.client} cannot set it: leave "
            "one of them out"
        )


def _check_engine(suite: Suite, engine: str) -> None:
    """UsageError if the suite says that it is for other clusters."""
    if not suite.engines or engine in suite.engines:
        return
    place = f"{suite.source.place_of(('engines',))}: " if suite.source is not None else ""
    *others, last = [f"--cluster {name}" for name in suite.engines]
    wanted = f"{', '.join(others)} or {last}" if others else last
    address = " --bootstrap-server HOST:PORT" if suite.engines == ["external"] else ""
    raise UsageError(
        f"{place}engines: the suite {suite.name} is for {wanted}, and this command is for --cluster {engine}: give "
        f"{last}{address}"
    )


def _tell_of_load_hosts(cells: Sequence[PlannedCell], options: RunOptions) -> None:
    """Hosts that would get no share, and brokers that they would not reach."""
    hosts = options.load_hosts
    if hosts is None:
        return
    fewest = min((cell.workload.producers for cell in cells), default=hosts.count)
    if fewest < hosts.count:
        noun = "producer uses" if fewest == 1 else "producers use"
        print_fitting(
            f"load hosts: a cell with {fewest} {noun} only {fewest} of {hosts.count} load hosts: set "
            f"workload.producers to {hosts.count} or more, where the suite is yours",
            to_stderr=True,
            hanging=2,
        )
    if options.engine != "external" and not _is_loopback(hosts.listen_host):
        print_fitting(
            f"load hosts: brokers of --cluster {options.engine} listen on loopback: only load hosts on this machine "
            "reach them",
            to_stderr=True,
            hanging=2,
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_place(suite: Suite, options: RunOptions) -> None:
    """The options that only an external cluster has, and those that it has not."""
    if options.direct_bootstrap_server and options.fault_hosts is None:
        raise UsageError("--direct-bootstrap-server needs --fault-hosts: without them the harness's own way is direct")
    if options.engine == "external":
        if not options.bootstrap_server:
            raise UsageError("--cluster external needs --bootstrap-server host:port")
        parse_bootstrap(options.bootstrap_server)
        if options.direct_bootstrap_server:
            parse_bootstrap(options.direct_bootstrap_server, option="--direct-bootstrap-server")
        if suite.cluster.settings:
            names = ", ".join(suite.cluster.settings)
            print_fitting(
                f"without effect on an external cluster: cluster.settings ({names})",
                to_stderr=True,
                hanging=2,
            )
        if suite.cluster.log_directories > 1:
            told = f"without effect on an external cluster: cluster.log_directories ({suite.cluster.log_directories})"
            print_fitting(told, to_stderr=True, hanging=2)
        if suite.cluster.racks:
            told = f"without effect on an external cluster: cluster.racks ({', '.join(suite.cluster.racks)})"
            print_fitting(told, to_stderr=True, hanging=2)
    elif options.fault_hosts is not None:
        raise UsageError(f"--fault-hosts belongs to --cluster external, not to {options.engine}")
    elif options.bootstrap_server:
        raise UsageError(f"--bootstrap-server belongs to --cluster external, not to {options.engine}")
    elif options.client_config:
        raise UsageError(f"--client-config belongs to --cluster external, not to {options.engine}")
    if options.client_config:
        read_properties(options.client_config)  # the rest of the file is checked when the run begins


def _check_cell(suite: Suite, cell: PlannedCell, engine: str) -> None:
    if cell.kind != "chaos" and suite.source is None and (problem := property_problem(cell)):
        raise UsageError(f"cell {cell.cell_id}: {problem}")
    if engine == "external":
        return
    if engine == "kafka" and (problem := release_problem(cell)):
        raise UsageError(f"cell {cell.cell_id}: {problem}")
    for scope, settings in (("topic", cell.topic_config), ("broker", cell.record.broker_settings)):
        if problem := settings_problem(scope, settings):
            raise UsageError(f"cell {cell.cell_id}: {problem}")


def _check_settings(suite: Suite, clients: tuple[str, str], cells: Sequence[PlannedCell], engine: str) -> None:
    """Settings in the suite's file, and in scenarios that are not part of the package. UsageError with file
    and line. `clients`: of the suite, and of its sweep."""
    client, sweep_client = clients
    has_own_broker = engine != "external"
    for entry in suite.chaos:
        if entry.scenario not in builtin_scenarios():
            source, scenario = scenario_source(entry.scenario), load_scenario(entry.scenario)
            check_scenario_settings(source, scenario, has_own_broker=has_own_broker)
    if suite.source is not None:
        check_settings(
            suite.source,
            client,
            [*cells, *first_try(suite, client)],
            sweep_client=sweep_client,
            has_own_broker=has_own_broker,
            has_sweep=suite.sweep is not None or suite.search is not None,
        )


def _on_clusters(suite: Suite, cells: tuple[PlannedCell, ...], engine: str) -> tuple[PlannedCell, ...]:
    """Somebody else's cluster cannot be started anew. Then all rounds belong to one fork, and the report says so."""
    if engine != "external" or suite.sweep is None or suite.sweep.forks == 1:
        return cells
    print_fitting(
        f"without effect on an external cluster: sweep.forks ({suite.sweep.forks}); it is not ours to start anew, so "
        "all rounds run on it and the intervals hold its scatter alone",
        to_stderr=True,
        hanging=2,
    )
    return tuple(replace(cell, record=replace(cell.record, fork=1 if cell.record.fork else None)) for cell in cells)


def _wanted(cells: tuple[PlannedCell, ...], ids: Sequence[str]) -> tuple[PlannedCell, ...]:
    """The cells of `--cell`, in the order of the plan. Each keeps the seed that it has in the whole plan."""
    known = [cell.cell_id for cell in cells]
    for cell_id in ids:
        if cell_id not in known:
            raise UsageError(f"--cell {cell_id}: no such cell{nearest(cell_id, known)}")
    return tuple(cell for cell in cells if not ids or cell.cell_id in ids)
