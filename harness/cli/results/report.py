"""`harness report`: the analysis of run directories, their verdicts, and the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.cli.results.gather import rebuild_directory
from harness.errors import ExitCode, HarnessError, Interrupted, worst_of
from harness.run.directory.recover import recover_run
from harness.run.directory.run_directory import check_run_directory
from harness.run.hosts.gather_late import hosts_to_gather
from harness.run.hosts.store_rebuild import documents_alone
from harness.run.report.analysis_process import AnalysisAhead
from harness.run.report.artifacts import check_artifacts, collect_artifacts
from harness.run.report.reporting import check_allowances, exit_code_of, make_report, print_verdicts
from harness.run.report.spark_choice import SparkChoice
from harness.terminal.progress import Progress
from harness.terminal.signals import StopFlag, signals_set
from harness.terminal.tables import print_fitting
from runlog.files.paths import manifest_path
from runlog.records.documents import read_run_record


def report_directories(
    directories: Sequence[Path],
    spark: SparkChoice,
    *,
    allow: Path | None,
    artifacts: Path | None,
    store: str | None = None,
) -> ExitCode:
    """The worst exit code of all. With `store` the run log is read there. A directory that is not there is made
    from its documents there."""
    check_allowances(allow)
    check_artifacts(artifacts)
    for directory in directories:
        if store is not None and not manifest_path(directory).is_file():
            rebuild_directory(directory, store, directory.name, documents_alone)
        check_run_directory(directory)
    codes = []
    stop = StopFlag()
    with signals_set(stop):
        for directory in directories:
            for line in recover_run(directory):
                print_fitting(line, to_stderr=True)
            if names := hosts_to_gather(directory):
                key = "" if read_run_record(directory).store else " --load-key master.key"
                print_fitting(
                    f"load hosts still have run logs of this run ({', '.join(names)}): `harness gather {directory}"
                    f"{key}` brings them",
                    to_stderr=True,
                )
            codes.append(
                report_run(
                    directory.resolve(),
                    spark,
                    stop,
                    Progress(0),
                    allow,
                    artifacts,
                    store=store,
                )
            )
    return worst_of(codes)


def report_run(
    run_dir: Path,
    spark: SparkChoice,
    stop: StopFlag,
    progress: Progress,
    allow: Path | None,
    artifacts: Path | None,
    *,
    store: str | None = None,
    ahead: AnalysisAhead | None = None,
) -> ExitCode:
    verdicts = None
    try:
        verdicts = make_report(
            run_dir,
            spark=spark,
            allow=allow,
            store=store,
            stop=stop,
            progress=progress,
            ahead=ahead,
        )
    except HarnessError as error:
        if stop.is_set():
            raise Interrupted(str(error)) from error
        raise
    finally:
        if artifacts is not None:
            collect_artifacts(run_dir, artifacts, with_results=verdicts is not None)
    print_verdicts(verdicts, run_dir / "report.html")
    return exit_code_of(verdicts)
