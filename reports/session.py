"""Makes the Spark session: of this process, of a standalone cluster, or of a Spark Connect server. Finds Java for it.

The analysis itself gets a session and never makes one. Shown by tests/reports/test_reports_session.py.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

JAVA_MAJOR_MIN = 17
SMALL_RUN_BYTES = 16 << 20  # 5 to 25 million rows; below this the JVM's second compiler costs more than it gives
JAVA_ANSWER_TIMEOUT_S = 20


CONNECT_SCHEME = "sc://"
# What is settled when a JVM starts; a Connect server has its own and refuses to change them.
_OF_THE_SERVER = (
    "spark.driver.",
    "spark.executor.",
    "spark.ui.",
    "spark.local.",
    "spark.buffer.",
    "spark.sql.warehouse.",
)


class SparkUnavailableError(Exception):
    """No Spark session can be had, and what to do about it."""


class JavaMissingError(SparkUnavailableError):
    """Spark needs a JDK and none that fits was found."""


def is_connect(master: str) -> bool:
    return master.startswith(CONNECT_SCHEME)


def is_on_this_host(master: str) -> bool:
    """Whether driver and executors meet on loopback. Elsewhere they need an address that Spark finds for itself."""
    hosts = [place.rpartition(":")[0] for place in master.removeprefix("spark://").split(",")]
    return not master.startswith("spark://") or all(host == "localhost" or host.startswith("127.") for host in hosts)


def require_what_it_takes(master: str) -> None:
    """Raises SparkUnavailableError. A Connect server brings its own Java; its client needs gRPC."""
    if not is_connect(master):
        require_java()
        return
    missing = [name for name in ("grpc", "grpc_status", "zstandard") if importlib.util.find_spec(name) is None]
    if missing:
        raise SparkUnavailableError(
            f"{master}: Spark Connect needs the packages of pip install 'kafka-harness[connect]'; "
            f"not found: {', '.join(missing)}"
        )


def require_java() -> str:
    """Path of `java`. Raises JavaMissingError with the way to mend it."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = "install a JDK 17 or newer (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    if not java or not Path(java).exists():
        raise JavaMissingError(f"Spark needs Java and none was found (JAVA_HOME={home or 'unset'}): {advice}")
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_ANSWER_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissingError(f"{java} does not answer ({error}): {advice}") from error
    match = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    if match and int(match.group(1)) < JAVA_MAJOR_MIN:
        raise JavaMissingError(f"{java} is Java {match.group(1)}, Spark needs {JAVA_MAJOR_MIN}: {advice}")
    return java


def session_settings(*, small: bool, scratch: str) -> dict[str, str]:
    """Settings of the session. The reasons of the unusual ones stand beside them."""
    java_options = [f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}"]
    if small:
        java_options.append("-XX:TieredStopAtLevel=1")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g" if small else "2g",
        "spark.driver.extraJavaOptions": " ".join(java_options),
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2" if small else "4",
        # Parquet is so small on disk that Spark would broadcast ten million rows: only hinted broadcasts are allowed.
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.enabled": "false",
        # Cell ids are text, also when they look like numbers or dates.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.ansi.enabled": "false",
    }
    if small:
        settings["spark.executor.extraJavaOptions"] = "-XX:TieredStopAtLevel=1"
        # Every sort and hash table takes a page at least: with the default of 16 MB they cost more than their work.
        settings["spark.buffer.pageSize"] = "1m"
    return settings


def parquet_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*/cell=*/*.parquet"))


class Session:
    """A Spark session with a scratch directory; both are gone when the block ends."""

    def __init__(self, *, master: str, small: bool) -> None:
        self._master = master
        self._small = small
        self._scratch = tempfile.TemporaryDirectory(prefix="reports-spark-")
        self.spark: SparkSession | None = None

    def __enter__(self) -> SparkSession:
        require_what_it_takes(self._master)
        settings = session_settings(small=self._small, scratch=self._scratch.name)
        if not is_on_this_host(self._master):
            del settings["spark.driver.host"], settings["spark.driver.bindAddress"]
        # Typed loosely: the builder's methods are decorated and lose their types.
        builder: Any = SparkSession.builder
        builder = builder.appName("reports")
        if is_connect(self._master):
            spark: SparkSession = builder.remote(self._master).getOrCreate()
            for key, value in settings.items():
                if not key.startswith(_OF_THE_SERVER):
                    spark.conf.set(key, value)
        else:
            if is_on_this_host(self._master):
                os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            builder = builder.master(self._master)
            for key, value in settings.items():
                builder = builder.config(key, value)
            spark = builder.getOrCreate()
        self.spark = spark
        return spark

    def __exit__(self, *_: object) -> None:
        if self.spark is not None:
            self.spark.stop()
        self._scratch.cleanup()
