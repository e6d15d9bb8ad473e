"""The commands about runs that are over: `report`, `gather`, `compare`. Here are their options only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.arguments.parameters import (
    LISTEN_DEFAULT,
    Allow,
    Artifacts,
    LoadListen,
    Spark,
    SparkConf,
)
from harness.cli.environment.java import require_some_java
from harness.run.report.spark_choice import SparkChoice


def report(
    directories: Annotated[list[Path] | None, typer.Argument(metavar="DIR...", help="run directories")] = None,
    spark_master: Spark = None,
    spark_conf: SparkConf = None,
    allow: Allow = None,
    artifacts: Artifacts = None,
    load_store: Annotated[
        str | None,
        typer.Option("--load-store", metavar="URL", help="read the run logs of load hosts in this store, in place"),
    ] = None,
    to_edn: Annotated[
        Path | None,
        typer.Option("--to-edn", metavar="FILE", help="only write one cell as a history of Jepsen's Kafka workload"),
    ] = None,
    cell: Annotated[
        str | None, typer.Option("--cell", metavar="ID", help="of --to-edn, if the run has several cells")
    ] = None,
    from_edn: Annotated[
        Path | None,
        typer.Option("--from-edn", metavar="FILE", help="check such a history, whoever wrote it; no DIR"),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="of --from-edn, what decides about lawful: isolation.level, ..."
        ),
    ] = None,
    json_: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="of --from-edn: the anomalies as JSON too")
    ] = None,
) -> None:
    """Analyse run directories again; no cluster is needed."""
    own = [name for name, value in (("--cell", cell),) if value is not None and to_edn is None]
    own += [name for name, value in (("--set", set_), ("--json", json_)) if value and from_edn is None]
    if own:
        needed = "--to-edn" if own[0] == "--cell" else "--from-edn"
        raise typer.BadParameter(f"{own[0]} belongs to {needed}")
    if from_edn is not None:
        if directories or to_edn is not None:
            raise typer.BadParameter("--from-edn checks a file: leave DIR and --to-edn out")
        from harness.cli.results.histories import check_history

        raise typer.Exit(check_history(from_edn, tuple(set_ or ()), json_))
    if not directories:
        raise typer.BadParameter("expected DIR, a run directory, or --from-edn FILE")
    if to_edn is not None:
        if len(directories) > 1:
            raise typer.BadParameter("--to-edn writes one cell of one run: expected one DIR")
        from harness.cli.results.histories import write_history

        raise typer.Exit(write_history(directories[0], to_edn, cell))
    require_some_java(spark_master, advice="nothing was changed")
    from harness.cli.results.report import report_directories

    raise typer.Exit(
        report_directories(
            directories,
            SparkChoice.of_options(spark_master, spark_conf),
            allow=allow,
            artifacts=artifacts,
            store=load_store,
        )
    )


def gather(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="directory of a run whose harness died")],
    load_key: Annotated[
        Path | None, typer.Option("--load-key", metavar="FILE", help="master.key of that run: ask its load hosts")
    ] = None,
    load_listen: LoadListen = LISTEN_DEFAULT,
    load_store: Annotated[
        str | None, typer.Option("--load-store", metavar="URL", help="make a lost directory anew from this store")
    ] = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="NAME", help="in that store; default the directory's name")
    ] = None,
) -> None:
    """Bring the run logs that load hosts still have of a run whose harness died; then `harness report` shows them.

    They come from the store of the run, if it has one, and from the load hosts themselves with --load-key.
    """
    from harness.cli.results.gather import gather_run

    raise typer.Exit(gather_run(directory, load_listen, load_key, load_store, run))


def compare(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="run directory")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="run directory")],
    force: Annotated[bool, typer.Option("--force", help="even if host, path, durability or load are unlike")] = False,
    relevant: Annotated[
        float, typer.Option("--relevant", metavar="PERCENT", help="a smaller change counts as none")
    ] = 5.0,
    spark_master: Spark = None,
    spark_conf: SparkConf = None,
) -> None:
    """Better, worse, same or undecided: NEW against BASE, with false discoveries controlled.

    Exit code 0 same or better, 1 worse, 2 the runs are unlike, 4 undecided.
    """
    from harness.cli.results.compare import compare_runs

    raise typer.Exit(
        compare_runs(
            base,
            new,
            force=force,
            relevant=relevant / 100,
            spark=SparkChoice.of_options(spark_master, spark_conf),
        )
    )
