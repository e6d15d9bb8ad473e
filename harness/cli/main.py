"""`harness`: the commands and their options, and how each ends. What they do is in the modules beside it.

Exit codes: 0 pass, 1 fail, 2 usage or configuration, 3 environment, 4 inconclusive, 5 harness error, 130 interrupted.
Shown by tests/harness/test_harness_cli.py.
"""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from harness import VERSION
from harness.cli.cluster_commands import cluster_app
from harness.cli.java import require_some_java
from harness.errors import ExitCode, HarnessError
from runlog.files.redaction import Redactor

app = typer.Typer(
    name="harness",
    help="Benchmarks and chaos tests for brokers that speak the Kafka protocol.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(cluster_app, name="cluster")

# Newer versions of typer contain a copy of click, older ones import it. This finds it through the names that typer
# itself exports.
_ClickException: Final[Any] = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)

_Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="override a key of the suite; dots reach inside")
]
_Cluster = Annotated[
    str, typer.Option("--cluster", help="reference, kafka (Apache Kafka by Maven), docker or external")
]
_Bootstrap = Annotated[
    str | None, typer.Option("--bootstrap-server", metavar="HOST:PORT", help="of an external cluster")
]
_ClientConfig = Annotated[
    Path | None,
    typer.Option("--client-config", metavar="FILE", help="of an external cluster: security.protocol, ssl.*, sasl.*"),
]
_Client = Annotated[str | None, typer.Option("--client", help="reference, confluent, ...: instead of the suite's")]
_Seed = Annotated[int | None, typer.Option("--seed", min=0, help="instead of the suite's")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="print the plan and do nothing")]
_Toxiproxy = Annotated[
    str, typer.Option("--toxiproxy", metavar="URL|auto|embedded", help="which server carries the links")
]
_Spark = Annotated[str | None, typer.Option("--spark-master", metavar="URL", help="of the analysis; default local")]
_RunDir = Annotated[Path | None, typer.Option("--run-dir", help="where the run goes; default runs/<time>-<suite>")]
_Web = Annotated[bool, typer.Option("--web", help="serve Locust's own view of the running cell on loopback")]
_WebPort = Annotated[int, typer.Option("--web-port", min=1, max=65_535, help="of --web")]
_Strict = Annotated[bool, typer.Option("--strict", help="findings of the lint are errors")]
_Cell = Annotated[
    list[str] | None, typer.Option("--cell", metavar="ID", help="only these cells of the plan (see --dry-run)")
]
_Allow = Annotated[
    Path | None, typer.Option("--allow", metavar="FILE", help="anomalies to live with for now, each until a day (YAML)")
]
_Artifacts = Annotated[
    Path | None, typer.Option("--artifacts", metavar="DIR", help="report, junit.xml, summary and logs of all runs here")
]
_NoCertify = Annotated[
    bool, typer.Option("--no-certify", help="do not measure first what the load generator itself can do")
]
_NoReport = Annotated[bool, typer.Option("--no-report", help="leave the analysis out; `harness report` does it later")]


@app.command()
def run(
    suites: Annotated[list[str], typer.Argument(metavar="SUITE...", help="names (harness list suites) or YAML files")],
    cluster: _Cluster = "reference",
    bootstrap_server: _Bootstrap = None,
    client_config: _ClientConfig = None,
    client: _Client = None,
    seed: _Seed = None,
    set_: _Set = None,
    dry_run: _DryRun = False,
    toxiproxy: _Toxiproxy = "auto",
    spark_master: _Spark = None,
    run_dir: _RunDir = None,
    no_report: _NoReport = False,
    strict: _Strict = False,
    web: _Web = False,
    web_port: _WebPort = 8089,
    cell: _Cell = None,
    allow: _Allow = None,
    artifacts: _Artifacts = None,
    no_certify: _NoCertify = False,
) -> None:
    """Run suites, analyse them, print the verdicts; the last line of stdout is the report's path."""
    if not (dry_run or no_report):
        require_some_java(spark_master)
    from harness.cli.run import RunOptions, run_suites
    from harness.suite import load_suite

    options = RunOptions(
        engine=cluster, bootstrap_server=bootstrap_server, client=client, seed=seed, dry_run=dry_run,
        toxiproxy=toxiproxy, spark_master=spark_master, run_dir=run_dir, make_report=not no_report, strict=strict,
        argv=tuple(sys.argv[1:]), web_port=web_port if web else None,
        cells=tuple(cell or ()), allow=allow, artifacts=artifacts, certify=not no_certify,
        client_config=client_config,
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
    cluster: _Cluster = "reference",
    bootstrap_server: _Bootstrap = None,
    client_config: _ClientConfig = None,
    client: _Client = None,
    seed: _Seed = None,
    dry_run: _DryRun = False,
    spark_master: _Spark = None,
    run_dir: _RunDir = None,
    no_report: _NoReport = False,
    cell: _Cell = None,
    artifacts: _Artifacts = None,
) -> None:
    """One question in one line: how fast are these settings at this rate, or how high can the rate be?"""
    if not (dry_run or no_report):
        require_some_java(spark_master)
    from harness.cli.bench import Question, bench_suite
    from harness.cli.run import RunOptions, run_suites

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
    cluster: _Cluster = "reference",
    bootstrap_server: _Bootstrap = None,
    client_config: _ClientConfig = None,
    client: _Client = None,
    seed: _Seed = None,
    set_: _Set = None,
    dry_run: _DryRun = False,
    toxiproxy: _Toxiproxy = "auto",
    spark_master: _Spark = None,
    run_dir: _RunDir = None,
    no_report: _NoReport = False,
    cell: _Cell = None,
    allow: _Allow = None,
    artifacts: _Artifacts = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="one scenario for each kind of damage, six cells")] = False,
) -> None:
    """Run chaos scenarios: all their cases, or those named.

    What a scenario does not say of its load comes from the suite `demo`, which --set changes.
    """
    if not (dry_run or no_report):
        require_some_java(spark_master)
    from harness.cli.run import RunOptions, chaos_suite, run_suites, smoke_suite

    options = RunOptions(
        engine=cluster, bootstrap_server=bootstrap_server, client=client, seed=seed, dry_run=dry_run,
        toxiproxy=toxiproxy, spark_master=spark_master, run_dir=run_dir, make_report=not no_report,
        argv=tuple(sys.argv[1:]), cells=tuple(cell or ()), allow=allow, artifacts=artifacts,
        client_config=client_config,
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
    spark_master: _Spark = None,
    allow: _Allow = None,
    artifacts: _Artifacts = None,
) -> None:
    """Analyse run directories again; no cluster is needed."""
    require_some_java(spark_master, advice="nothing was changed")
    from harness.cli.run import report_directories

    raise typer.Exit(report_directories(directories, spark_master, allow=allow, artifacts=artifacts))


@app.command()
def compare(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="run directory")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="run directory")],
    force: Annotated[bool, typer.Option("--force", help="even if host, path, durability or load are unlike")] = False,
    relevant: Annotated[
        float, typer.Option("--relevant", metavar="PERCENT", help="a smaller change counts as none")
    ] = 5.0,
    spark_master: _Spark = None,
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
    bootstrap_server: _Bootstrap = None,
    toxiproxy: _Toxiproxy = "auto",
    spark_master: _Spark = None,
    run_dir: _RunDir = None,
) -> None:
    """Run what a sweep recommends again, alone, and hold the sweep's prediction against it.

    Exit code 0 as predicted or better, 1 worse, 4 without usable figures.
    """
    require_some_java(spark_master, advice="nothing was started")
    from harness.cli.confirm import confirm_run
    from harness.cli.run import RunOptions

    options = RunOptions(
        engine="", bootstrap_server=bootstrap_server, client=None, seed=None, dry_run=False, toxiproxy=toxiproxy,
        spark_master=spark_master, run_dir=run_dir, make_report=True, argv=tuple(sys.argv[1:]),
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
def doctor(toxiproxy: _Toxiproxy = "auto") -> None:
    """Try each part of the set-up for real, and name the fix for what does not work."""
    from harness.cli.doctor import examine

    raise typer.Exit(examine(toxiproxy))


@app.command()
def clean(client_config: _ClientConfig = None) -> None:
    """Undo what crashed runs left behind: processes, proxies, faults; topics of theirs on your own cluster."""
    from harness.cli.clean import clean_up

    clean_up(client_config)


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


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of `harness` and of `python -m harness`."""
    sys.exit(int(execute(arguments)))


def execute(arguments: Sequence[str] | None = None) -> int:
    """The exit code; every problem is told on stderr, and no secret of the command line with it."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    redactor = Redactor.of(arguments=words)
    try:
        result = app(args=None if arguments is None else list(arguments), standalone_mode=False)
        return int(result) if isinstance(result, int) else int(ExitCode.PASS)
    except typer.Abort:
        return ExitCode.INTERRUPTED
    except _ClickException as error:
        error.show()
        return ExitCode.USAGE
    except HarnessError as error:
        print(f"harness: {redactor.text(str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except PermissionError as error:
        print(f"harness: {error.strerror}: {error.filename}", file=sys.stderr)
        return ExitCode.ENVIRONMENT
    except OSError as error:
        if error.errno not in _FULL:
            _print_traceback(error, redactor)
            return ExitCode.HARNESS_ERROR
        print(
            f"harness: {redactor.text(str(error))}; "
            "what was written so far is kept. Free some space, or put the run on another disk "
            "with --run-dir (a run needs about 60 bytes a record, and the brokers' logs)",
            file=sys.stderr,
        )
        return ExitCode.ENVIRONMENT
    except Exception as error:  # a defect of ours: shown in full, with the code that says so
        _print_traceback(error, redactor)
        return ExitCode.HARNESS_ERROR


def _print_traceback(error: BaseException, redactor: Redactor) -> None:
    sys.stderr.write(redactor.text("".join(traceback.format_exception(error))))
