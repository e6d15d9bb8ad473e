"""The commands that put load on a cluster: `run`, `bench`, `chaos`, `confirm`. Here are their options only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.arguments.host_options import fault_hosts_asked, load_hosts_asked
from harness.cli.arguments.parameters import (
    FAULT_LISTEN_DEFAULT,
    LISTEN_DEFAULT,
    Allow,
    Artifacts,
    Bootstrap,
    Cell,
    Client,
    ClientConfig,
    Cluster,
    ClusterOfSuite,
    DirectBootstrap,
    DryRun,
    FaultHosts,
    FaultListen,
    LoadHosts,
    LoadKey,
    LoadListen,
    LoadStore,
    NoCertify,
    NoReport,
    RunDir,
    Seed,
    Set,
    Spark,
    SparkConf,
    Strict,
    Toxiproxy,
    Web,
    WebPort,
    Yes,
)
from harness.cli.environment.java import require_some_java
from harness.errors import ExitCode
from harness.run.report.spark_choice import SparkChoice


def run(
    suites: Annotated[list[str], typer.Argument(metavar="SUITE...", help="names (harness list suites) or YAML files")],
    cluster: ClusterOfSuite = None,
    bootstrap_server: Bootstrap = None,
    client_config: ClientConfig = None,
    client: Client = None,
    seed: Seed = None,
    set_: Set = None,
    dry_run: DryRun = False,
    toxiproxy: Toxiproxy = "auto",
    spark_master: Spark = None,
    spark_conf: SparkConf = None,
    run_dir: RunDir = None,
    no_report: NoReport = False,
    strict: Strict = False,
    web: Web = False,
    web_port: WebPort = 8089,
    cell: Cell = None,
    allow: Allow = None,
    artifacts: Artifacts = None,
    no_certify: NoCertify = False,
    load_hosts: LoadHosts = None,
    load_listen: LoadListen = LISTEN_DEFAULT,
    load_key: LoadKey = None,
    fault_hosts: FaultHosts = None,
    fault_listen: FaultListen = FAULT_LISTEN_DEFAULT,
    direct_bootstrap_server: DirectBootstrap = None,
    load_store: LoadStore = None,
    yes: Yes = False,
) -> None:
    """Run suites, analyse them, print the verdicts; the last line of stdout is the report's path."""
    if not (dry_run or no_report):
        require_some_java(spark_master)
    from harness.cli.arguments.run_options import RunOptions
    from harness.cli.load.run import run_suites
    from harness.cli.planning.speed_note import default_engine
    from harness.kafka_releases import cluster_choice
    from harness.suite import load_suite

    loaded = [load_suite(name, set_ or ()) for name in suites]
    asked = cluster_choice(cluster or default_engine(loaded, has_address=bootstrap_server is not None))
    options = RunOptions(
        engine=asked.engine, releases=asked.releases, bootstrap_server=bootstrap_server, client=client, seed=seed,
        dry_run=dry_run,
        toxiproxy=toxiproxy, spark=SparkChoice.of_options(spark_master, spark_conf), run_dir=run_dir,
        make_report=not no_report, strict=strict,
        argv=tuple(sys.argv[1:]), web_port=web_port if web else None,
        cells=tuple(cell or ()), allow=allow, artifacts=artifacts, certify=not no_certify,
        client_config=client_config,
        load_hosts=load_hosts_asked(load_hosts, load_listen, load_key, load_store, web=web, of_faults=fault_hosts),
        fault_hosts=fault_hosts_asked(fault_hosts, fault_listen, load_key),
        direct_bootstrap_server=direct_bootstrap_server, yes=yes,
    )  # fmt: skip
    raise typer.Exit(run_suites(loaded, options))


def bench(
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE...]", help="client settings, e.g. linger.ms=5 acks=all")
    ] = None,
    rate: Annotated[str, typer.Option("--rate", help="records a second; max: search the highest")] = "1000",
    size: Annotated[int, typer.Option("--size", min=32, help="of a record, bytes")] = 1024,
    seconds: Annotated[int, typer.Option("--seconds", min=1, max=3600, help="of each measured window")] = 10,
    repetitions: Annotated[int, typer.Option("--repetitions", min=1, max=100)] = 3,
    forks: Annotated[
        int | None,
        typer.Option("--forks", min=1, max=100, help="clusters, each started anew; default 1 for each repetition"),
    ] = None,
    producers: Annotated[int, typer.Option("--producers", min=1)] = 1,
    partitions: Annotated[int, typer.Option("--partitions", min=1, max=256)] = 3,
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", min=1, max=9, help="of the topic; 1 for a cluster of one broker")
    ] = 3,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="'p99_ms <= 50'",
            help="a figure must keep this, or exit 1; of p99_ms with --rate max: what the rate must keep (else 50)",
        ),
    ] = None,
    cluster: Cluster = "reference",
    bootstrap_server: Bootstrap = None,
    client_config: ClientConfig = None,
    client: Client = None,
    seed: Seed = None,
    dry_run: DryRun = False,
    spark_master: Spark = None,
    spark_conf: SparkConf = None,
    run_dir: RunDir = None,
    no_report: NoReport = False,
    cell: Cell = None,
    artifacts: Artifacts = None,
    yes: Yes = False,
) -> None:
    """One question in one line: how fast are these settings at this rate, or how high can the rate be?"""
    if not (dry_run or no_report):
        require_some_java(spark_master)
    from harness.cli.arguments.run_options import RunOptions
    from harness.cli.load.bench import Question, bench_suite
    from harness.cli.load.run import run_suites
    from harness.kafka_releases import cluster_choice

    asked = cluster_choice(cluster)
    options = RunOptions(
        engine=asked.engine, releases=asked.releases, bootstrap_server=bootstrap_server, client=client, seed=seed,
        dry_run=dry_run,
        toxiproxy="auto", spark=SparkChoice.of_options(spark_master, spark_conf), run_dir=run_dir,
        make_report=not no_report,
        argv=tuple(sys.argv[1:]), cells=tuple(cell or ()),
        artifacts=artifacts, client_config=client_config, yes=yes,
    )  # fmt: skip
    question = Question(
        rate=rate, size_bytes=size, seconds=seconds, repetitions=repetitions, producers=producers,
        forks=forks or (1 if cluster == "external" else repetitions),
        partitions=partitions, replication_factor=replication_factor, client=client or "reference",
        settings=tuple(settings or ()),
        limits=tuple(limit or ()),
    )  # fmt: skip
    raise typer.Exit(run_suites([bench_suite(question)], options))


def chaos(
    scenarios: Annotated[
        list[str] | None, typer.Argument(metavar="[SCENARIO...]", help="names or YAML files; default all")
    ] = None,
    case: Annotated[list[str] | None, typer.Option("--case", help="only these cases of the scenarios")] = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="do not ask before all scenarios are run, or another's cluster is loaded"),
    ] = False,
    cluster: Cluster = "reference",
    bootstrap_server: Bootstrap = None,
    client_config: ClientConfig = None,
    client: Client = None,
    seed: Seed = None,
    set_: Set = None,
    dry_run: DryRun = False,
    toxiproxy: Toxiproxy = "auto",
    spark_master: Spark = None,
    spark_conf: SparkConf = None,
    run_dir: RunDir = None,
    no_report: NoReport = False,
    cell: Cell = None,
    allow: Allow = None,
    artifacts: Artifacts = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="one scenario for each kind of damage, six cells")] = False,
    load_hosts: LoadHosts = None,
    load_listen: LoadListen = LISTEN_DEFAULT,
    load_key: LoadKey = None,
    fault_hosts: FaultHosts = None,
    fault_listen: FaultListen = FAULT_LISTEN_DEFAULT,
    direct_bootstrap_server: DirectBootstrap = None,
    load_store: LoadStore = None,
) -> None:
    """Run chaos scenarios: all their cases, or those named.

    What a scenario does not say of its load comes from the suite `demo`, which --set changes.
    """
    if not (dry_run or no_report):
        require_some_java(spark_master)
    from harness.cli.arguments.run_options import RunOptions
    from harness.cli.load.chaos_suites import chaos_suite, smoke_suite
    from harness.cli.load.run import run_suites
    from harness.kafka_releases import cluster_choice

    asked = cluster_choice(cluster)
    options = RunOptions(
        engine=asked.engine, releases=asked.releases, bootstrap_server=bootstrap_server, client=client, seed=seed,
        dry_run=dry_run,
        toxiproxy=toxiproxy, spark=SparkChoice.of_options(spark_master, spark_conf), run_dir=run_dir,
        make_report=not no_report,
        argv=tuple(sys.argv[1:]), cells=tuple(cell or ()), allow=allow,
        artifacts=artifacts, client_config=client_config,
        load_hosts=load_hosts_asked(load_hosts, load_listen, load_key, load_store, of_faults=fault_hosts),
        fault_hosts=fault_hosts_asked(fault_hosts, fault_listen, load_key),
        direct_bootstrap_server=direct_bootstrap_server, yes=yes,
    )  # fmt: skip
    if not (scenarios or smoke or yes or cell or case or dry_run):
        from harness.cli.load.all_scenarios import agreed_to_all

        if not agreed_to_all(chaos_suite([], [], set_ or []), options):
            raise typer.Exit(ExitCode.USAGE)
    suite = smoke_suite(scenarios, case, set_ or []) if smoke else chaos_suite(scenarios or [], case or [], set_ or [])
    raise typer.Exit(run_suites([suite], options))


def confirm(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="directory of a run with a sweep")],
    repetitions: Annotated[int, typer.Option("--repetitions", min=2, max=100, help="of the recommended cell")] = 4,
    bootstrap_server: Bootstrap = None,
    client_config: ClientConfig = None,
    toxiproxy: Toxiproxy = "auto",
    spark_master: Spark = None,
    spark_conf: SparkConf = None,
    run_dir: RunDir = None,
    yes: Yes = False,
) -> None:
    """Run what a sweep recommends again, alone, and hold the sweep's prediction against it.

    Exit code 0 as predicted or better, 1 worse, 4 if a figure is missing or undecided.
    """
    require_some_java(spark_master, advice="nothing was started")
    from harness.cli.arguments.run_options import RunOptions
    from harness.cli.load.confirm import confirm_run

    options = RunOptions(
        engine="", bootstrap_server=bootstrap_server, client=None, seed=None, dry_run=False, toxiproxy=toxiproxy,
        spark=SparkChoice.of_options(spark_master, spark_conf), run_dir=run_dir, make_report=True,
        argv=tuple(sys.argv[1:]),
        client_config=client_config, yes=yes,
    )  # fmt: skip
    raise typer.Exit(confirm_run(directory, options, repetitions))
