"""The commands of `harness`, in the order of its help. Their options are in the file commands.py of each room. What
they do is in other modules, which are imported when they are needed: `harness --help` must not wait for them.

Shown by tests/harness/test_harness_cli.py.
"""

from __future__ import annotations

from typing import Annotated

import typer

from harness import VERSION
from harness.cli.clients.commands import client_app
from harness.cli.clusters.commands import cluster_app
from harness.cli.explore.commands import explore
from harness.cli.explore.tape_commands import tape_app
from harness.cli.hosts.commands import clean, doctor, load_keys, worker
from harness.cli.load.commands import bench, chaos, confirm, run
from harness.cli.results.commands import compare, gather, report
from harness.cli.suites.commands import init, list_, schema, validate

app = typer.Typer(
    name="harness",
    help="Benchmarks and chaos tests for brokers that speak the Kafka protocol.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(cluster_app, name="cluster")
app.add_typer(client_app, name="client")
app.add_typer(tape_app, name="tape")
app.command()(run)
app.command()(bench)
app.command()(chaos)
app.command()(explore)
app.command()(report)
app.command()(gather)
app.command()(compare)
app.command()(confirm)
app.command()(validate)
app.command()(init)
app.command("list")(list_)
app.command()(schema)
app.command()(doctor)
app.command()(worker)
app.command("load-keys")(load_keys)
app.command()(clean)


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
