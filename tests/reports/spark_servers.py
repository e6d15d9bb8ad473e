"""A Spark standalone cluster, and a Spark Connect server, on loopback: for tests that analyse a run by them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from harness.clusters.ports import free_port
from tests.patience import Patience, cpu_seen

HOME = Path(pyspark.__file__).parent
QUICK_JVM = "-XX:TieredStopAtLevel=1 -Xshare:auto"  # the second compiler costs more than it gives a short test


@contextmanager
def server(directory: Path, name: str, *command: str, wanted: str) -> Iterator[None]:
    """A process of Spark; ready when its log says `wanted`."""
    log = directory / f"{name}.log"
    environment = {
        **os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(HOME), "SPARK_NO_DAEMONIZE": "1",
        "SPARK_WORKER_DIR": str(directory / "work"), "SPARK_DAEMON_MEMORY": "1g", "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
    }  # fmt: skip
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=directory)
    try:
        patience, cpu = Patience(f"{name} says {wanted!r}, see {log}"), cpu_seen(process.pid)
        while wanted not in (said := log.read_text()):
            assert process.poll() is None, f"{name} ended with {process.returncode}: {said[-3000:]}"
            patience.check((len(said), cpu()))
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """Master and one worker with two cores; yields the master's URL."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    run = str(HOME / "bin" / "spark-class")
    master = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port()))
    worker = ("--host", "127.0.0.1", "--cores", "2", "--memory", "2g", "--webui-port", str(free_port()), url)
    with ExitStack() as stack:
        stack.enter_context(
            server(directory, "master", run, "org.apache.spark.deploy.master.Master", *master, wanted="state: ALIVE")
        )
        registered = "Successfully registered with master"
        stack.enter_context(
            server(directory, "worker", run, "org.apache.spark.deploy.worker.Worker", *worker, wanted=registered)
        )
        yield url


@contextmanager
def connect(directory: Path) -> Iterator[str]:
    """A Connect server with a local Spark of two cores; yields its URL."""
    port = free_port()
    command = (
        str(HOME / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "1g",
        "--driver-java-options", QUICK_JVM,
        "--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.connect.grpc.binding.address=127.0.0.1",
        "--conf", "spark.ui.enabled=false", "--conf", f"spark.sql.warehouse.dir={directory / 'warehouse'}",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal",
    )  # fmt: skip
    with server(directory, "connect", *command, wanted="Spark Connect server started"):
        yield f"sc://127.0.0.1:{port}"
