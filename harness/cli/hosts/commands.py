"""The commands about this host: `doctor`, `worker`, `load-keys`, `clean`. Here are their options only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.arguments.host_options import fault_hosts_asked, load_hosts_asked
from harness.cli.arguments.parameters import (
    FAULT_LISTEN_DEFAULT,
    LISTEN_DEFAULT,
    Bootstrap,
    ClientConfig,
    FaultHosts,
    FaultListen,
    LoadHosts,
    LoadKey,
    LoadListen,
    Toxiproxy,
)


def doctor(
    toxiproxy: Toxiproxy = "auto",
    load_hosts: LoadHosts = None,
    load_listen: LoadListen = LISTEN_DEFAULT,
    load_key: LoadKey = None,
    fault_hosts: FaultHosts = None,
    fault_listen: FaultListen = FAULT_LISTEN_DEFAULT,
    bootstrap_server: Bootstrap = None,
    client_config: ClientConfig = None,
) -> None:
    """Try each part of the set-up for real, and name the fix for what does not work.

    With --bootstrap-server: only that cluster, whether it answers and lets topics be made. With --load-hosts: only the
    load hosts, their versions, cores and clocks. With --fault-hosts: only the fault hosts, and what may be done there.
    """
    if bootstrap_server is not None:
        from harness.cli.clusters.external_cluster import show_cluster

        raise typer.Exit(show_cluster(bootstrap_server, client_config))
    faults = fault_hosts_asked(fault_hosts, fault_listen, load_key)
    if faults is not None:
        from harness.cli.hosts.load_hosts import show_fault_hosts

        raise typer.Exit(show_fault_hosts(faults))
    wanted = load_hosts_asked(load_hosts, load_listen, load_key)
    if wanted is not None:
        from harness.cli.hosts.load_hosts import show_load_hosts

        raise typer.Exit(show_load_hosts(wanted))
    from harness.cli.hosts.doctor import examine

    raise typer.Exit(examine(toxiproxy))


def worker(
    master: Annotated[str, typer.Option("--master", metavar="HOST:PORT", help="where a run waits for load hosts")],
    key: Annotated[Path, typer.Option("--key", metavar="FILE", help="worker.key of `harness load-keys`")],
    name: Annotated[str | None, typer.Option("--name", help="in reports; default its host name")] = None,
    client_config: ClientConfig = None,
    may_connect: Annotated[
        str | None,
        typer.Option(
            "--may-connect", metavar="HOST:PORT,...", help="the only brokers that may get what --client-config holds"
        ),
    ] = None,
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
    from harness.cli.hosts.load_hosts import run_worker

    raise typer.Exit(run_worker(master, key, name, client_config, spool, allow_faults, store, may_connect))


def load_keys(directory: Annotated[Path, typer.Argument(metavar="DIR", help="where the two files go")]) -> None:
    """Write the keys of the link to load hosts: master.key for `harness run`, worker.key for `harness worker`."""
    from harness.cli.hosts.load_hosts import make_keys

    make_keys(directory)


def clean(client_config: ClientConfig = None) -> None:
    """Undo what crashed runs left behind: processes, proxies, faults; topics and groups on your own cluster."""
    from harness.cli.hosts.clean import clean_up

    clean_up(client_config)
