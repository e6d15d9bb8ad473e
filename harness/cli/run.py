"""`harness run`, `chaos` and `report`: from options to a run, its report and its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

from chaos.lease import default_root
from chaos.model import builtin_scenarios
from chaos.reap import reap, topics_left
from harness.cli.descriptors import require_descriptors
from harness.cli.fitting import fitting, property_problem
from harness.cli.preflight import check_world
from harness.clusters.base import IPV4_LOOPBACK, Engine
from harness.clusters.external import parse_bootstrap
from harness.clusters.proxies import check_proxy_choice
from harness.clusters.security import read_properties
from harness.errors import EnvironmentFault, ExitCode, HarnessError, Interrupted, UsageError
from harness.lint import findings_of
from harness.plan import PlannedCell, build_plan, first_try
from harness.run.artifacts import collect_artifacts
from harness.run.orchestrator import Run, RunRequest
from harness.run.progress import Progress
from harness.run.recover import recover_run
from harness.run.reporting import check_allowances, exit_code_of, make_report, print_verdicts, start_check
from harness.run.rundir import check_run_directory, create_run_directory
from harness.run.stop import StopFlag, signals_set
from harness.run.terminal_tables import Column, stdout_width, table_lines
from harness.run.time_left import WARMED_ENGINES, repeats_of, time_left_of
from harness.scenarios import cases_of, load_scenario, scenario_source
from harness.setting_places import check_scenario_settings, check_settings
from harness.suite import ChaosEntry, Suite, load_suite
from harness.suite_source import nearest
from harness.unknown_settings import settings_problem
from runlog.files.redaction import Redactor
from workloads.clients import client_names

ENGINES: Final = ("reference", "kafka", "docker", "external")
RUNS: Final = Path("runs")
# Scenarios that share one cluster and need the fewest seconds.
SMOKE: Final = {
    "leader-loss": ("acks-1", "acks-all"),
    "response-lost": ("idempotence-off", "idempotence-on"),
    "request-refused": ("in-flight-5", "in-flight-5-idempotent"),
}
# When several suites run, the worst of their exit codes counts, in this order.
_WORST_FIRST: Final = (
    ExitCode.INTERRUPTED, ExitCode.HARNESS_ERROR, ExitCode.ENVIRONMENT, ExitCode.FAIL, ExitCode.INCONCLUSIVE,
    ExitCode.PASS,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    engine: str
    bootstrap_server: str | None
    client: str | None
    seed: int | None
    dry_run: bool
    toxiproxy: str
    spark_master: str | None
    run_dir: Path | None
    make_report: bool
    argv: tuple[str, ...]
    web_port: int | None = None
    strict: bool = False
    cells: tuple[str, ...] = ()  # empty: all of the plan
    allow: Path | None = None
    artifacts: Path | None = None
    certify: bool = True
    client_config: Path | None = None


def run_suites(suites: Sequence[Suite], options: RunOptions) -> ExitCode:
    """All suites one after the other; the worst exit code."""
    try:
        return _run_suites(suites, options)
    except Exception as error:
        documents = [suite.model_dump(mode="json", by_alias=True) for suite in suites]
        Redactor.of(documents, arguments=options.argv).exception(error)
        raise


def _run_suites(suites: Sequence[Suite], options: RunOptions) -> ExitCode:
    requests = [(suite, plan_of(suite, options)) for suite in suites]
    check_allowances(options.allow)
    if options.run_dir is not None and len(suites) > 1:
        raise UsageError("--run-dir holds one run: give one suite")
    _lint(requests, strict=options.strict, is_own_cluster=options.engine != "external")
    if options.dry_run:
        for suite, cells in requests:
            print_plan(suite, cells, options)
        return ExitCode.PASS
    require_descriptors()
    check_world(
        engine=options.engine,
        clients=[cell.client for _, cells in requests for cell in cells],
        proxy_choice=options.toxiproxy,
        bootstrap=options.bootstrap_server,
        client_config=options.client_config,
    )
    leases = _lease_root()
    check = start_check(options.spark_master) if options.make_report else None
    left = [*reap(leases), *topics_left(leases)]
    if options.engine == "docker":
        from harness.clusters.docker.engine import reap_containers

        left += reap_containers()
    for line in left:
        print(f"left by a crashed run: {line}", file=sys.stderr)
    if check is not None:
        check.result()
    codes = []
    stop = StopFlag()
    with signals_set(stop):
        for suite, cells in requests:
            codes.append(_run_one(suite, cells, options, stop))
            if stop.is_set():
                break
    return next(code for code in _WORST_FIRST if code in codes)


def _lease_root() -> Path:
    """Made before anything is started. EnvironmentFault if no state can be kept, because then nothing could be
    undone."""
    try:
        root = default_root(os.environ)
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # pathlib raises RuntimeError if there is no home directory at all
        raise EnvironmentFault(
            f"no state can be kept ({error}): a run writes down what it starts and breaks, to undo it after a crash. "
            "Set XDG_STATE_HOME to a directory that can be written"
        ) from error
    return root


def _lint(requests: Sequence[tuple[Suite, Sequence[PlannedCell]]], *, strict: bool, is_own_cluster: bool) -> None:
    """Findings on stderr; with `strict` they are an error."""
    lines = list(
        dict.fromkeys(
            finding.text()
            for suite, cells in requests
            for finding in findings_of(suite, cells, is_own_cluster=is_own_cluster)
        )
    )
    if lines and strict:
        raise UsageError("--strict: the plan has findings:\n" + "\n".join(f"  {line}" for line in lines))
    for line in lines:
        print(f"lint: {line}", file=sys.stderr)


def plan_of(suite: Suite, options: RunOptions) -> tuple[PlannedCell, ...]:
    if options.engine not in ENGINES:
        raise UsageError(f"--cluster {options.engine}: no such cluster{nearest(options.engine, ENGINES)}")
    if suite.cluster.host != IPV4_LOOPBACK and options.engine != "reference":
        raise UsageError(f"cluster.host {suite.cluster.host} is for --cluster reference, not for {options.engine}")
    check_proxy_choice(options.toxiproxy)
    client = options.client or suite.client
    if client not in client_names():
        place = f"{suite.source.place_of(('client',))}: " if suite.source is not None and not options.client else ""
        raise UsageError(f"{place}client {client!r}: no such client{nearest(client, client_names())}")
    cells = build_plan(suite, cases_of, seed=_seed(suite, options), client=client)
    _check_settings(suite, client, cells, options.engine)
    if options.engine == "external":
        if not options.bootstrap_server:
            raise UsageError("--cluster external needs --bootstrap-server host:port")
        parse_bootstrap(options.bootstrap_server)
        if suite.cluster.settings:
            names = ", ".join(suite.cluster.settings)
            print(f"without effect on an external cluster: the suite's cluster.settings ({names})", file=sys.stderr)
    elif options.bootstrap_server:
        raise UsageError(f"--bootstrap-server belongs to --cluster external, not to {options.engine}")
    elif options.client_config:
        raise UsageError(f"--client-config belongs to --cluster external, not to {options.engine}")
    if options.client_config:
        read_properties(options.client_config)  # the rest of the file is checked when the run begins
    wanted = _wanted(fitting(_on_clusters(suite, cells, options.engine), options.engine), options.cells)
    for cell in wanted:
        if cell.kind != "chaos" and suite.source is None and (problem := property_problem(cell)):
            raise UsageError(f"cell {cell.cell_id}: {problem}")
        if options.engine != "external":
            for scope, settings in (("topic", cell.topic_config), ("broker", cell.record.broker_settings)):
                if problem := settings_problem(scope, settings):
                    raise UsageError(f"cell {cell.cell_id}: {problem}")
    return wanted


def _check_settings(suite: Suite, client: str, cells: Sequence[PlannedCell], engine: str) -> None:
    """Settings in the suite's file, and in scenarios that are not part of the package. UsageError with file
    and line."""
    for entry in suite.chaos:
        if entry.scenario not in builtin_scenarios():
            check_scenario_settings(scenario_source(entry.scenario), load_scenario(entry.scenario))
    if suite.source is not None:
        check_settings(
            suite.source,
            client,
            [*cells, *first_try(suite, client)],
            has_own_broker=engine != "external",
            has_sweep=suite.sweep is not None or suite.search is not None,
        )


def _on_clusters(suite: Suite, cells: tuple[PlannedCell, ...], engine: str) -> tuple[PlannedCell, ...]:
    """Somebody else's cluster cannot be started anew. Then all rounds belong to one fork, and the report says so."""
    if engine != "external" or suite.sweep is None or suite.sweep.forks == 1:
        return cells
    print(
        f"without effect on an external cluster: sweep.forks ({suite.sweep.forks}); it is not ours to start anew, so "
        "all rounds run on it and the intervals hold its scatter alone",
        file=sys.stderr,
    )
    return tuple(replace(cell, record=replace(cell.record, fork=1 if cell.record.fork else None)) for cell in cells)


def _wanted(cells: tuple[PlannedCell, ...], ids: Sequence[str]) -> tuple[PlannedCell, ...]:
    """The cells of `--cell`, in the order of the plan. Each keeps the seed that it has in the whole plan."""
    known = [cell.cell_id for cell in cells]
    for cell_id in ids:
        if cell_id not in known:
            raise UsageError(f"--cell {cell_id}: no such cell{nearest(cell_id, known)}")
    return tuple(cell for cell in cells if not ids or cell.cell_id in ids)


def _seed(suite: Suite, options: RunOptions) -> int:
    return suite.seed if options.seed is None else options.seed


def extra_cells(suite: Suite) -> int:
    """The largest number of cells that a rate search adds while it runs."""
    search = suite.search
    return 0 if search is None else search.probes_max + search.repetitions * len(set(search.fractions))


def print_plan(suite: Suite, cells: Sequence[PlannedCell], options: RunOptions) -> None:
    """What would be done, in order; one line a cell."""
    client, seed = options.client or suite.client, _seed(suite, options)
    print(f"suite {suite.name}: {len(cells)} cells, cluster {options.engine}, client {client}, seed {seed}")
    for line in _plan_lines(cells, options.engine, stdout_width()):
        print(line)
    if suite.search is not None:
        search = suite.search
        fractions = ", ".join(f"{fraction:.0%}" for fraction in search.fractions)
        print(
            f"then a search between {search.low_per_s:g} and {search.high_per_s:g} records/s, at most "
            f"{search.probes_max} tries, and the latency at {fractions} of the limit"
        )
    if not cells:
        return
    time_left = time_left_of(suite, cast(Engine, options.engine))
    number, clusters_s = time_left.of_clusters(cells)
    of_clusters = (
        f", of it up to {minutes(clusters_s)} for clusters that are started{_warmed(options.engine)}: {number}"
    )
    print(
        f"about {minutes(time_left.seconds(cells))}{' without the search' if suite.search else ''}"
        f"{'' if options.engine == 'external' else of_clusters}"
    )
    if any(cell.kind == "sweep" for cell in cells):
        print(spoilt_cells(suite, cells))


_PLAN: Final = (
    Column(heading="cell"),
    Column(heading="client", spare=1),
    Column(heading="load"),
    Column(heading="title", is_text=True),
)


def _plan_lines(cells: Sequence[PlannedCell], engine: str, width: int | None) -> list[str]:
    """Each cell in order, and the places where another cluster of the sweep begins."""
    rows = []
    for order, cell in enumerate(cells, start=1):
        workload = cell.workload
        load = (
            f"{workload.rate_per_s:g}/s x {workload.record_size_bytes} B, {workload.warmup_ms}+{workload.measure_ms} ms"
        )
        rows.append([f"{order:3}  {cell.cell_id}", cell.client, load, cell.title])
    lines = table_lines(_PLAN, rows, width)
    forks = {cell.fork for cell in cells if cell.kind == "sweep"}
    begins: dict[str, int] = {}
    for row, cell in zip(rows, cells, strict=True):
        if cell.kind == "sweep" and len(forks) > 1 and cell.fork not in begins.values():
            begins[row[0]] = cell.fork
    shown = []
    for line in lines[1:]:
        fork = next((number for first, number in begins.items() if line == first or line.startswith(f"{first} ")), 0)
        if fork:
            shown.append(f"     fork {fork}: a cluster of its own, started{_warmed(engine)} anew")
        shown.append(line)
    return shown


def spoilt_cells(suite: Suite, cells: Sequence[PlannedCell]) -> str:
    """What a busy host may cost this run, told before it begins."""
    longest_ms = repeats_of(suite, cells).whole_ms
    if not longest_ms:
        return "cells that a busy host spoils are not repeated: they are marked"
    return f"cells that a busy host spoils are run again for at most {minutes(longest_ms / 1000)} in all, then marked"


def _warmed(engine: str) -> str:
    return " and warmed up" if engine in WARMED_ENGINES else ""


def seconds_of(suite: Suite, cells: Sequence[PlannedCell], options: RunOptions) -> float:
    """How long these cells will take, clusters and all."""
    return time_left_of(suite, cast(Engine, options.engine)).seconds(cells)


def minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _run_one(suite: Suite, cells: tuple[PlannedCell, ...], options: RunOptions, stop: StopFlag) -> ExitCode:
    run_dir = create_run_directory(RUNS, suite.name, options.run_dir)
    progress = Progress(len(cells) + extra_cells(suite))
    client = options.client or suite.client
    seed = _seed(suite, options)
    progress.say(f"{suite.name}: {len(cells)} cells on {options.engine} with client {client}, seed {seed}; {run_dir}")
    if any(cell.kind == "sweep" for cell in cells):
        progress.say(spoilt_cells(suite, cells))
    request = RunRequest(
        suite=suite,
        cells=cells,
        engine=cast(Engine, options.engine),
        client=client,
        seed=seed,
        proxy_choice=options.toxiproxy,
        bootstrap_servers=options.bootstrap_server,
        client_config=options.client_config,
        run_dir=run_dir,
        argv=options.argv,
        web_port=options.web_port,
        certify=options.certify,
    )
    if options.web_port is not None:
        progress.say(f"Locust's view of the running cell: http://127.0.0.1:{options.web_port}")
    code = Run(request, stop=stop, progress=progress, lease_root=default_root(os.environ)).execute()
    if code is ExitCode.INTERRUPTED:
        progress.say(f"interrupted; what was measured is in {run_dir}: `harness report {run_dir}` shows it")
        return code
    if not options.make_report:
        print(run_dir, flush=True)
        return code
    return _report(run_dir, options.spark_master, stop, progress, options.allow, options.artifacts)


def _report(
    run_dir: Path,
    spark_master: str | None,
    stop: StopFlag,
    progress: Progress,
    allow: Path | None,
    artifacts: Path | None,
) -> ExitCode:
    verdicts = None
    try:
        verdicts = make_report(run_dir, spark_master=spark_master, allow=allow, stop=stop, progress=progress)
    except HarnessError as error:
        if stop.is_set():
            raise Interrupted(str(error)) from error
        raise
    finally:
        if artifacts is not None:
            collect_artifacts(run_dir, artifacts, with_results=verdicts is not None)
    print_verdicts(verdicts, run_dir / "report.html")
    return exit_code_of(verdicts)


def report_directories(
    directories: Sequence[Path], spark_master: str | None, *, allow: Path | None, artifacts: Path | None
) -> ExitCode:
    """The worst exit code of all."""
    check_allowances(allow)
    codes = []
    stop = StopFlag()
    with signals_set(stop):
        for directory in directories:
            check_run_directory(directory)
            for line in recover_run(directory):
                print(line, file=sys.stderr)
            codes.append(_report(directory.resolve(), spark_master, stop, Progress(0), allow, artifacts))
    return next(code for code in _WORST_FIRST if code in codes)


def chaos_suite(scenarios: Sequence[str], cases: Sequence[str], overrides: Sequence[str]) -> Suite:
    """The demo's load and topic, with only these scenarios."""
    base = load_suite("demo", overrides)
    entries = [ChaosEntry(scenario=name, cases=list(cases)) for name in scenarios or builtin_scenarios()]
    return base.model_copy(update={"name": "chaos", "description": "Chaos scenarios.", "sweep": None, "chaos": entries})


def smoke_suite(scenarios: Sequence[str] | None, cases: Sequence[str] | None, overrides: Sequence[str]) -> Suite:
    """Each kind of damage once where the settings permit it, and once where they do not."""
    if scenarios or cases:
        raise UsageError("--smoke chooses its own scenarios: name scenarios and cases, or give --smoke")
    base = load_suite("demo", overrides)
    entries = [ChaosEntry(scenario=name, cases=list(wanted)) for name, wanted in SMOKE.items()]
    update = {"name": "chaos-smoke", "description": "A quick look at each damage.", "sweep": None, "chaos": entries}
    return base.model_copy(update=update)
