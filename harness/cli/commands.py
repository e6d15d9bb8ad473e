"""The commands of `harness` and their options. What they do is in the modules beside this one, which are imported when
they are needed: `harness --help` must not wait for them.

Shown by tests/harness/test_harness_cli.py.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness import VERSION
from harness.cli.cluster_commands import cluster_app
from harness.cli.java import require_some_java
from harness.cli.parameters import (
    FAULT_LISTEN_DEFAULT,
    LISTEN_DEFAULT,
    Allow,
    Artifacts,
    Bootstrap,
    Cell,
    Client,
    ClientConfig,
    Cluster,
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
    Strict,
    Toxiproxy,
    Web,
    WebPort,
)
from harness.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from harness.run.load_hosts import LoadHostsRequest

app = typer.Typer(
    name="harness",
    help="Benchmarks and chaos tests for brokers that speak the Kafka protocol.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(cluster_app, name="cluster")


@app.command()
def run(
    suites: Annotated[list[str], typer.Argument(metavar="SUITE...", help="names (harness list suites) or YAML files")],
    cluster: Cluster = "reference",
    bootstrap_server: Bootstrap = None,
    client_config: ClientConfig = None,
    client: Client = None,
    seed: Seed = None,
    set_: Set = None,
    dry_run: DryRun = False,
    toxiproxy: Toxiproxy = "auto",
    spark_master: Spark = None,
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
    load_store: LoadStore = None,
) -> None:
    """Run suites, analyse them, print the verdicts; the last line of stdout is the report's path."""
    if not (dry_run or no_report):
        require_some_java(spark_master)
    from harness.cli.options import RunOptions
    from harness.cli.run import run_suites
    from harness.suite import load_suite

    options = RunOptions(
        engine=cluster, bootstrap_server=bootstrap_server, client=client, seed=seed, dry_run=dry_run,
        toxiproxy=toxiproxy, spark_master=spark_master, run_dir=run_dir, make_report=not no_report, strict=strict,
        argv=tuple(sys.argv[1:]), web_port=web_port if web else None,
        cells=tuple(cell or ()), allow=allow, artifacts=artifacts, certify=not no_certify,
        client_config=client_config,
        load_hosts=_load_hosts(load_hosts, load_listen, load_key, load_store, web=web, of_faults=fault_hosts),
        fault_hosts=_fault_hosts(fault_hosts, fault_listen, load_key),
    )  # fmt: skip
    raise typer.Exit(run_suites([load_suite(name, set_ or ()) for name in suites], options))


@app.command()
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
    limit: Annotated[
        list[str] | None, typer.Option("--limit", metavar="'p99_ms <= 50'", help="a figure must keep this, or exit 1")
    ] = None,
    cluster: Cluster = "reference",
    bootstrap_server: Bootstrap = None,
    client_config: ClientConfig = None,
    client: Client = None,
    seed: Seed = None,
    dry_run: DryRun = False,
    spark_master: Spark = None,
    run_dir: RunDir = None,
    no_report: NoReport = False,
    cell: Cell = None,
    artifacts: Artifacts = None,
) -> None:
    """One question in one line: how fast are these settings at this rate, or how high can the rate be?"""
    if not (dry_run or no_report):
        require_some_java(spark_master)
    from harness.cli.bench import Question, bench_suite
    from harness.cli.options import RunOptions
    from harness.cli.run import run_suites

    options = RunOptions(
        engine=cluster, bootstrap_server=bootstrap_server, client=client, seed=seed, dry_run=dry_run,
        toxiproxy="auto", spark_master=spark_master, run_dir=run_dir, make_report=not no_report,
        argv=tuple(sys.argv[1:]), cells=tuple(cell or ()), artifacts=artifacts, client_config=client_config,
    )  # fmt: skip
    question = Question(
        rate=rate, size_bytes=size, seconds=seconds, repetitions=repetitions, producers=producers,
        forks=forks or (1 if cluster == "external" else repetitions),
        partitions=partitions, client=client or "reference", settings=tuple(settings or ()),
        limits=tuple(limit or ()),
    )  # fmt: skip
    raise typer.Exit(run_suites([bench_suite(question)], options))


@app.command()
def chaos(
    scenarios: Annotated[
        list[str] | None, typer.Argument(metavar="[SCENARIO...]", help="names or YAML files; default all")
    ] = None,
    case: Annotated[list[str] | None, typer.Option("--case", help="only these cases of the scenarios")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask before all scenarios are run")] = False,
    cluster: Cluster = "reference",
    bootstrap_server: Bootstrap = None,
    client_config: ClientConfig = None,
    client: Client = None,
    seed: Seed = None,
    set_: Set = None,
    dry_run: DryRun = False,
    toxiproxy: Toxiproxy = "auto",
    spark_master: Spark = None,
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
    load_store: LoadStore = None,
) -> None:
    """Run chaos scenarios: all their cases, or those named.

    What a scenario does not say of its load comes from the suite `demo`, which --set changes.
    """
    if not (dry_run or no_report):
        require_some_java(spark_master)
    from harness.cli.chaos_suites import chaos_suite, smoke_suite
    from harness.cli.options import RunOptions
    from harness.cli.run import run_suites

    options = RunOptions(
        engine=cluster, bootstrap_server=bootstrap_server, client=client, seed=seed, dry_run=dry_run,
        toxiproxy=toxiproxy, spark_master=spark_master, run_dir=run_dir, make_report=not no_report,
        argv=tuple(sys.argv[1:]), cells=tuple(cell or ()), allow=allow, artifacts=artifacts,
        client_config=client_config,
        load_hosts=_load_hosts(load_hosts, load_listen, load_key, load_store, of_faults=fault_hosts),
        fault_hosts=_fault_hosts(fault_hosts, fault_listen, load_key),
    )  # fmt: skip
    if not (scenarios or smoke or yes or cell or case or dry_run):
        from harness.cli.all_scenarios import agreed_to_all

        if not agreed_to_all(chaos_suite([], [], set_ or []), options):
            raise typer.Exit(ExitCode.USAGE)
    suite = smoke_suite(scenarios, case, set_ or []) if smoke else chaos_suite(scenarios or [], case or [], set_ or [])
    raise typer.Exit(run_suites([suite], options))


@app.command()
def report(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="run directories")],
    spark_master: Spark = None,
    allow: Allow = None,
    artifacts: Artifacts = None,
) -> None:
    """Analyse run directories again; no cluster is needed."""
    require_some_java(spark_master, advice="nothing was changed")
    from harness.cli.report import report_directories

    raise typer.Exit(report_directories(directories, spark_master, allow=allow, artifacts=artifacts))


@app.command()
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
    from harness.cli.gather import gather_run

    raise typer.Exit(gather_run(directory, load_listen, load_key, load_store, run))


@app.command()
def compare(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="run directory")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="run directory")],
    force: Annotated[bool, typer.Option("--force", help="even if host, path, durability or load are unlike")] = False,
    relevant: Annotated[
        float, typer.Option("--relevant", metavar="PERCENT", help="a smaller change counts as none")
    ] = 5.0,
    spark_master: Spark = None,
) -> None:
    """Better, worse, same or undecided: NEW against BASE, with false discoveries controlled.

    Exit code 0 same or better, 1 worse, 2 the runs are unlike, 4 undecided.
    """
    from harness.cli.compare import compare_runs

    raise typer.Exit(compare_runs(base, new, force=force, relevant=relevant / 100, spark_master=spark_master))


@app.command()
def confirm(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="directory of a run with a sweep")],
    repetitions: Annotated[int, typer.Option("--repetitions", min=2, max=100, help="of the recommended cell")] = 4,
    bootstrap_server: Bootstrap = None,
    client_config: ClientConfig = None,
    toxiproxy: Toxiproxy = "auto",
    spark_master: Spark = None,
    run_dir: RunDir = None,
) -> None:
    """Run what a sweep recommends again, alone, and hold the sweep's prediction against it.

    Exit code 0 as predicted or better, 1 worse, 4 without usable figures.
    """
    require_some_java(spark_master, advice="nothing was started")
    from harness.cli.confirm import confirm_run
    from harness.cli.options import RunOptions

    options = RunOptions(
        engine="", bootstrap_server=bootstrap_server, client=None, seed=None, dry_run=False, toxiproxy=toxiproxy,
        spark_master=spark_master, run_dir=run_dir, make_report=True, argv=tuple(sys.argv[1:]),
        client_config=client_config,
    )  # fmt: skip
    raise typer.Exit(confirm_run(directory, options, repetitions))


@app.command()
def validate(files: Annotated[list[str], typer.Argument(metavar="FILE...", help="suites or scenarios, YAML")]) -> None:
    """Check suites and scenarios; errors name file, line and the nearest right key."""
    from harness.cli.inspect import validate_files

    raise typer.Exit(validate_files(files))


@app.command()
def init(
    what: Annotated[str, typer.Argument(metavar="suite|scenario|test")],
    path: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="default: a name of its own, here")] = None,
) -> None:
    """Write a complete, commented file to begin with: a suite, a scenario, or a test for pytest."""
    from harness.cli.init import write_example

    write_example(what, path)


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(metavar="scenarios|suites|faults|clients|clusters")],
    name: Annotated[str | None, typer.Argument(metavar="[FAULT]", help="explain this fault")] = None,
    json_: Annotated[bool, typer.Option("--json", help="as JSON")] = False,
) -> None:
    """What there is to choose from; `list faults NAME` explains one."""
    from harness.cli.inspect import list_things

    list_things(what, as_json=json_, name=name)


@app.command()
def schema(what: Annotated[str, typer.Argument(metavar="suite|scenario|runlog|allowances|verdicts")] = "suite") -> None:
    """JSON Schema of suites, scenarios or allowances for an editor, or of verdicts.json; or the run log's columns."""
    from harness.cli.inspect import print_schema

    print_schema(what)


@app.command()
def doctor(
    toxiproxy: Toxiproxy = "auto",
    load_hosts: LoadHosts = None,
    load_listen: LoadListen = LISTEN_DEFAULT,
    load_key: LoadKey = None,
    fault_hosts: FaultHosts = None,
    fault_listen: FaultListen = FAULT_LISTEN_DEFAULT,
) -> None:
    """Try each part of the set-up for real, and name the fix for what does not work.

    With --load-hosts: only the load hosts, their versions, cores and clocks. With --fault-hosts: only the fault hosts,
    and what may be done there.
    """
    faults = _fault_hosts(fault_hosts, fault_listen, load_key)
    if faults is not None:
        from harness.cli.load_hosts import show_fault_hosts

        raise typer.Exit(show_fault_hosts(faults))
    wanted = _load_hosts(load_hosts, load_listen, load_key)
    if wanted is not None:
        from harness.cli.load_hosts import show_load_hosts

        raise typer.Exit(show_load_hosts(wanted))
    from harness.cli.doctor import examine

    raise typer.Exit(examine(toxiproxy))


@app.command()
def worker(
    master: Annotated[str, typer.Option("--master", metavar="HOST:PORT", help="where a run waits for load hosts")],
    key: Annotated[Path, typer.Option("--key", metavar="FILE", help="worker.key of `harness load-keys`")],
    name: Annotated[str | None, typer.Option("--name", help="in reports; default its host name")] = None,
    client_config: ClientConfig = None,
    spool: Annotated[
        Path | None, typer.Option("--spool", metavar="DIR", help="where run logs lie until they are gathered")
    ] = None,
    allow_faults: Annotated[
        Path | None,
        typer.Option(
            "--allow-faults", metavar="FILE", help="be a fault host: what may be done to the brokers here (YAML)"
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="URL", help="put run logs there, for runs with --load-store: file:// or s3://"),
    ] = None,
) -> None:
    """Be a load host: send and read for runs that are driven from another host, until Ctrl-C.

    With --allow-faults: be a fault host, that ends, pauses and starts brokers for such runs, as far as FILE allows it.
    """
    from harness.cli.load_hosts import run_worker

    raise typer.Exit(run_worker(master, key, name, client_config, spool, allow_faults, store))


@app.command("load-keys")
def load_keys(directory: Annotated[Path, typer.Argument(metavar="DIR", help="where the two files go")]) -> None:
    """Write the keys of the link to load hosts: master.key for `harness run`, worker.key for `harness worker`."""
    from harness.cli.load_hosts import make_keys

    make_keys(directory)


@app.command()
def clean(client_config: ClientConfig = None) -> None:
    """Undo what crashed runs left behind: processes, proxies, faults; topics of theirs on your own cluster."""
    from harness.cli.clean import clean_up

    clean_up(client_config)


def _load_hosts(
    count: int | None,
    listen: str,
    key: Path | None,
    store: str | None = None,
    *,
    web: bool = False,
    of_faults: int | None = None,
) -> LoadHostsRequest | None:
    """None: the load runs here. UsageError for options that do not fit together. `of_faults`: hosts that need the key
    too."""
    if count is None:
        if key is not None and of_faults is None:
            raise UsageError("--load-key needs --load-hosts N or --fault-hosts N")
        if store is not None:
            raise UsageError("--load-store needs --load-hosts N: without them all run logs are here")
        if listen != LISTEN_DEFAULT:
            raise UsageError("--load-listen needs --load-hosts N")
        return None
    if web:
        raise UsageError("--web shows the load of one host: leave it out with --load-hosts")
    from harness.run.load_hosts import load_hosts_request

    return load_hosts_request(count, listen, key, store)


def _fault_hosts(count: int | None, listen: str, key: Path | None) -> LoadHostsRequest | None:
    """None: processes of somebody else's cluster are left alone."""
    if count is None:
        return None
    from harness.run.load_hosts import load_hosts_request

    return load_hosts_request(count, listen, key, option="--fault")


def _show_version(asked: bool) -> None:
    if asked:
        print(VERSION)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Options of all commands."""
