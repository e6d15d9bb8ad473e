"""`harness cluster up|status|down`: the commands and their options; what they do is in cluster.py.

Shown by tests/harness/test_harness_cluster_cli.py.
"""

from __future__ import annotations

from typing import Annotated

import typer

cluster_app = typer.Typer(help="A cluster that stays up until it is taken down.", no_args_is_help=True)

_Name = Annotated[str, typer.Option("--name", help="as given to `harness cluster up`")]


@cluster_app.command("up")
def cluster_up(
    cluster: Annotated[
        str, typer.Option("--cluster", help="reference, or kafka (Apache Kafka by Maven), kafka==3.9.1")
    ] = "reference",
    brokers: Annotated[
        int, typer.Option("--brokers", min=1, max=9, help="number of broker processes on this host")
    ] = 3,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="a broker setting, e.g. num.partitions=4")
    ] = None,
    name: Annotated[
        str, typer.Option("--name", help="several clusters may be up under names of their own")
    ] = "default",
) -> None:
    """Start a cluster that outlives this command; prints its bootstrap addresses alone."""
    from harness.cli.clusters.cluster import up

    up(cluster=cluster, brokers=brokers, settings=set_ or [], name=name)


@cluster_app.command("status")
def cluster_status(name: _Name = "default") -> None:
    """The brokers of a cluster that is up. Exit code 3 when it is not, or not whole."""
    from harness.cli.clusters.cluster import status

    raise typer.Exit(status(name))


@cluster_app.command("down")
def cluster_down(name: _Name = "default") -> None:
    """Stop the cluster and remove its data. Nothing to do is no error."""
    from harness.cli.clusters.cluster import down

    down(name)
