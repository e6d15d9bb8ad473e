"""`harness run`, `chaos` and `bench`: from suites and options to runs, their reports and one exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from chaos.reap import left_on_clusters, reap
from harness.cli.arguments.run_options import RunOptions
from harness.cli.clusters.external_cluster import require_consent, shapes_of, show_cluster, tried
from harness.cli.environment.descriptors import require_descriptors
from harness.cli.environment.preflight import check_world
from harness.cli.planning.external_settings import fitting_brokers
from harness.cli.planning.plan_text import counted_cells, extra_cells, print_plan, spoilt_cells
from harness.cli.planning.planned_cells import plan_of
from harness.cli.planning.speed_note import speed_note
from harness.cli.results.report import report_run
from harness.clusters.base import Engine
from harness.errors import ExitCode, HarnessError, LoadHostsLost, UsageError, worst_of
from harness.lease_root import lease_root
from harness.lint import findings_of
from harness.planned_cell import PlannedCell
from harness.release_needs import releases_of
from harness.run.directory.reproduce import of_one_suite
from harness.run.directory.run_directory import RUNS, create_run_directory
from harness.run.orchestrator import Run
from harness.run.report.analysis_process import AnalysisAhead
from harness.run.report.artifacts import check_artifacts
from harness.run.report.reporting import AnalysisCheck, check_allowances
from harness.run.request import RunRequest
from harness.suite import Suite
from harness.terminal.progress import Progress
from harness.terminal.signals import StopFlag, signals_set
from harness.terminal.tables import print_fitting
from runlog.files.redaction import Redactor


def run_suites(suites: Sequence[Suite], options: RunOptions) -> ExitCode:
    """All suites one after the other; the worst exit code."""
    try:
        return _run_suites(suites, options)
    except Exception as error:
        documents = [suite.model_dump(mode="json", by_alias=True) for suite in suites]
        Redactor.of(documents, arguments=options.argv).exception(error)
        raise


def _run_suites(suites: Sequence[Suite], options: RunOptions) -> ExitCode:
    suites = [suite.with_releases(options.releases) for suite in suites]
    requests = [(suite, plan_of(suite, options)) for suite in suites]
    check_allowances(options.allow)
    check_artifacts(options.artifacts)
    if options.run_dir is not None and len(suites) > 1:
        raise UsageError("--run-dir holds one run: give one suite")
    _lint(requests, strict=options.strict, is_own_cluster=options.engine != "external")
    if options.dry_run:
        for suite, cells in requests:
            print_plan(suite, cells, options)
            if note := speed_note(suite, options.engine, options.sweep_client_of(suite)):
                print_fitting(f"note: {note}", to_stderr=True, hanging=2)
        if options.engine != "external" or options.bootstrap_server is None:
            return ExitCode.PASS
        return show_cluster(options.bootstrap_server, options.client_config, shapes_of(requests))
    require_descriptors()
    check_world(
        engine=options.engine,
        clients=[cell.client for _, cells in requests for cell in cells],
        proxy_choice=options.toxiproxy,
        bootstrap=options.bootstrap_server,
        client_config=options.client_config,
        releases=releases_of([cell for _, cells in requests for cell in cells]),
    )
    requests = fitting_brokers(requests, options)
    if options.engine == "external":
        assert options.bootstrap_server is not None, "the plan asks for it"
        tried(options.bootstrap_server, options.client_config, shapes_of(requests))
        require_consent(requests, options, is_agreed=options.yes)
    leases = lease_root()
    check = AnalysisCheck(options.spark) if options.make_report else None
    _undo_crashed_runs(leases, options.engine)
    if check is not None:
        check.result()
    codes = []
    stop = StopFlag()
    with signals_set(stop):
        for number, (suite, cells) in enumerate(requests):
            own = options if len(requests) == 1 else replace(options, argv=tuple(of_one_suite(options.argv, number)))
            codes.append(_run_one(suite, cells, own, stop))
            if stop.is_set():
                break
    return worst_of(codes)


def _undo_crashed_runs(leases: Path, engine: str) -> None:
    left = [*reap(leases), *left_on_clusters(leases)]
    if engine == "docker":
        from harness.clusters.docker.engine import reap_containers

        left += reap_containers()
    for line in left:
        print_fitting(f"left by a crashed run: {line}", to_stderr=True, hanging=2)


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
        print_fitting(f"lint: {line}", to_stderr=True, hanging=2)


def _run_one(suite: Suite, cells: tuple[PlannedCell, ...], options: RunOptions, stop: StopFlag) -> ExitCode:
    run_dir = create_run_directory(RUNS, suite.name, options.run_dir)
    progress = Progress(len(cells) + extra_cells(suite))
    client = options.client_of(suite)
    seed = options.seed_of(suite)
    with_client = f"with {options.client_words(suite)}, seed {seed}"
    progress.say(
        f"{suite.name}: {counted_cells(len(cells))} on {options.cluster_words(suite)} {with_client}; {run_dir}"
    )
    if note := speed_note(suite, options.engine, options.sweep_client_of(suite)):
        progress.say(note)
    if any(cell.is_of_sweep for cell in cells):
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
        load_hosts=options.load_hosts,
        fault_hosts=options.fault_hosts,
        direct_bootstrap_servers=options.direct_bootstrap_server,
    )
    if options.web_port is not None:
        progress.say(f"Locust's view of the running cell: http://127.0.0.1:{options.web_port}")
    ahead = AnalysisAhead(run_dir, options.spark, options.allow) if options.make_report else None
    try:
        return _carry_out(request, options, stop, progress, ahead)
    finally:
        if ahead is not None:
            ahead.cancel()


def _carry_out(
    request: RunRequest, options: RunOptions, stop: StopFlag, progress: Progress, ahead: AnalysisAhead | None
) -> ExitCode:
    """The run, then its report, unless none is wanted (`ahead` is None then)."""
    run_dir = request.run_dir
    report = partial(report_run, run_dir, options.spark, stop, progress, options.allow, options.artifacts, ahead=ahead)
    try:
        code = Run(request, stop=stop, progress=progress, lease_root=lease_root(), ahead=ahead).execute()
    except LoadHostsLost as error:
        if ahead is not None:
            progress.say(f"the run ended: {error}; the report shows what was measured before")
            report()
        raise
    if code is ExitCode.INTERRUPTED:
        progress.say(f"interrupted; what was measured is in {run_dir}: `harness report {run_dir}` shows it")
        return code
    if ahead is None:
        print(run_dir, flush=True)
        return code
    try:
        reported = report()
    except (HarnessError, OSError) as error:
        if code is not ExitCode.ENVIRONMENT:
            raise
        progress.say(f"no report could be made ({error}): free some space, then `harness report {run_dir}` makes it")
        return code
    # The report calls a cell for which the disk was too small inconclusive. Somebody has to free some space first.
    return worst_of([code, reported]) if code is ExitCode.ENVIRONMENT else reported
