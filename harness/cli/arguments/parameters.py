"""Options that several commands of `harness` have, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

LISTEN_DEFAULT: Final = "127.0.0.1:5557"  # Load hosts are awaited there.
FAULT_LISTEN_DEFAULT: Final = "127.0.0.1:5558"
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="override a key of the suite; dots reach inside")
]
_KINDS: Final = "reference, kafka (Apache Kafka by Maven; kafka==3.9.1: that release), docker or external"
Cluster = Annotated[str, typer.Option("--cluster", help=_KINDS)]
ClusterOfSuite = Annotated[
    str | None,
    typer.Option("--cluster", help=f"{_KINDS}; else the first of the suite's `engines`"),
]
Bootstrap = Annotated[
    str | None, typer.Option("--bootstrap-server", metavar="HOST:PORT", help="of an external cluster")
]
DirectBootstrap = Annotated[
    str | None,
    typer.Option(
        "--direct-bootstrap-server",
        metavar="HOST:PORT",
        help="of a listener that leads through no proxy, for the harness's own requests, with --fault-hosts",
    ),
]
ClientConfig = Annotated[
    Path | None,
    typer.Option("--client-config", metavar="FILE", help="of an external cluster: security.protocol, ssl.*, sasl.*"),
]
Client = Annotated[
    str | None, typer.Option("--client", help="reference, confluent, ./my-program, ...: instead of the suite's")
]
ClientCommand = Annotated[
    list[str] | None,
    typer.Argument(metavar="[COMMAND...]", help="how the client is started; options of its own after --"),
]
ClientOfOurs = Annotated[
    str | None,
    typer.Option("--client", metavar="NAME", help="one of ours instead of a command: kafkajs, confluent==2.4.0"),
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="instead of the suite's")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="print the plan and do nothing")]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="do not ask before a cluster that the harness did not start is loaded")
]
Toxiproxy = Annotated[
    str, typer.Option("--toxiproxy", metavar="URL|auto|embedded", help="which server carries the links")
]
Spark = Annotated[str | None, typer.Option("--spark-master", metavar="URL", help="of the analysis; default local")]
SparkConf = Annotated[
    list[str] | None,
    typer.Option("--spark-conf", metavar="spark.NAME=VALUE", help="of the analysis' Spark session, after ours; often"),
]
RunDir = Annotated[Path | None, typer.Option("--run-dir", help="where the run goes; default runs/<time>-<suite>")]
Web = Annotated[bool, typer.Option("--web", help="serve Locust's own view of the running cell on loopback")]
WebPort = Annotated[int, typer.Option("--web-port", min=1, max=65_535, help="of --web")]
Strict = Annotated[bool, typer.Option("--strict", help="findings of the lint are errors")]
Cell = Annotated[
    list[str] | None, typer.Option("--cell", metavar="ID", help="only these cells of the plan (see --dry-run)")
]
Allow = Annotated[
    Path | None, typer.Option("--allow", metavar="FILE", help="anomalies to live with for now, each until a day (YAML)")
]
Artifacts = Annotated[
    Path | None, typer.Option("--artifacts", metavar="DIR", help="report, junit.xml, summary and logs of all runs here")
]
NoCertify = Annotated[
    bool, typer.Option("--no-certify", help="do not measure first what the load generator itself can do")
]
LoadHosts = Annotated[
    int | None,
    typer.Option("--load-hosts", min=1, max=64, help="run the load on so many hosts with `harness worker`, not here"),
]
LoadListen = Annotated[
    str, typer.Option("--load-listen", metavar="HOST:PORT", help="where load hosts are waited for, with --load-hosts")
]
LoadKey = Annotated[
    Path | None,
    typer.Option(
        "--load-key", metavar="FILE", help="master.key of `harness load-keys`, with --load-hosts or --fault-hosts"
    ),
]
FaultHosts = Annotated[
    int | None,
    typer.Option(
        "--fault-hosts",
        min=1,
        max=64,
        help="break brokers of an external cluster through so many hosts with `harness worker … --allow-faults`",
    ),
]
FaultListen = Annotated[
    str,
    typer.Option("--fault-listen", metavar="HOST:PORT", help="where fault hosts are waited for, with --fault-hosts"),
]
LoadStore = Annotated[
    str | None,
    typer.Option(
        "--load-store", metavar="URL",
        help="load hosts put their run logs there, with --load-hosts: file:///directory or s3://bucket/prefix",
    ),
]  # fmt: skip
NoReport = Annotated[bool, typer.Option("--no-report", help="leave the analysis out; `harness report` does it later")]
