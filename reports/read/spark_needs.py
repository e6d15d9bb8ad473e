"""What an analysis needs before it can begin: pyspark, Java, and the server that was named. Imports no pyspark.

The check takes less than two seconds if nothing is missing, so a run makes it before its first cell. Owns the messages
that say how to install what is missing. Shown by tests/reports/test_reports_session.py.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from reports.read.errors import EnvironmentProblem, UsageProblem

JAVA_MAJOR_MIN: Final = 17
JAVA_ANSWER_TIMEOUT_S: Final = 20
SERVER_ANSWER_TIMEOUT_S: Final = 3.0  # to accept a connection; the same network is asked to carry the analysis
LOCAL_SCHEME: Final = "local"
CONNECT_SCHEME: Final = "sc://"
STANDALONE_SCHEME: Final = "spark://"
_MASTERS: Final = ("local", STANDALONE_SCHEME, CONNECT_SCHEME, "yarn", "k8s://")  # as their beginnings
CONNECT_PORT: Final = 15002
STANDALONE_PORT: Final = 7077
_ADVICE: Final = "install a JDK 17 or newer (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"


class SparkUnavailableError(EnvironmentProblem):
    """No Spark session can be had, and what to do about it."""


class JavaMissingError(SparkUnavailableError):
    """Spark needs a JDK and none that fits was found."""


def is_connect(master: str) -> bool:
    return master.startswith(CONNECT_SCHEME)


def is_local(master: str) -> bool:
    """Whether Spark is threads of this host, and no cluster."""
    return master.partition("[")[0] == LOCAL_SCHEME


def parse_conf(texts: Iterable[str]) -> dict[str, str]:
    """`spark.NAME=VALUE`, as spark-submit takes them. UsageProblem names the one that is wrong."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().startswith("spark."):
            raise UsageProblem(f"--spark-conf {text!r}: expected spark.NAME=VALUE, as spark-submit --conf takes it")
        found[name.strip()] = value
    return found


def is_on_this_host(master: str) -> bool:
    """Whether driver and executors meet on loopback. Elsewhere they need an address that Spark finds for itself."""
    hosts = [place.rpartition(":")[0] for place in master.removeprefix(STANDALONE_SCHEME).split(",")]
    return not master.startswith(STANDALONE_SCHEME) or all(
        host == "localhost" or host.startswith("127.") for host in hosts
    )


def require_what_it_takes(master: str) -> None:
    """Raises SparkUnavailableError. A Connect server brings its own Java; its client needs gRPC."""
    if not master.startswith(_MASTERS):
        raise UsageProblem(
            f"Spark master {master!r}: expected local[N], spark://HOST:PORT, sc://HOST:PORT, yarn or k8s://URL"
        )
    if is_connect(master):
        require_pyspark()
        missing = [name for name in ("grpc", "grpc_status", "zstandard") if importlib.util.find_spec(name) is None]
        if missing:
            raise SparkUnavailableError(
                f"{master}: Spark Connect needs more packages: "
                "pip install 'grpcio>=1.76,<2' 'grpcio-status>=1.76,<2' 'googleapis-common-protos>=1.71,<2' "
                "'zstandard>=0.25,<1'; "
                f"not found: {', '.join(missing)}"
            )
    else:
        require_java()  # the quicker one first
        require_pyspark()
    require_server(master)


def require_pyspark() -> None:
    """Imports it: a package that is there and broken is found here, and not after the load."""
    try:
        import pyspark.sql  # noqa: F401
    except Exception as error:  # whatever a broken package raises: the person must mend it
        raise SparkUnavailableError(
            f"the analysis needs pyspark, and importing it fails ({type(error).__name__}: {error}): "
            "pip install --force-reinstall pyspark"
        ) from error


def find_java() -> str:
    """Path of `java`, which is not tried. Raises JavaMissingError with the way to mend it."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or not Path(java).exists():
        raise JavaMissingError(f"Spark needs Java and none was found (JAVA_HOME={home or 'unset'}): {_ADVICE}")
    return java


def require_java() -> str:
    """Path of a `java` that answers and is new enough. Raises JavaMissingError with the way to mend it."""
    java = find_java()
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=JAVA_ANSWER_TIMEOUT_S,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissingError(f"{java} does not answer ({error}): {_ADVICE}") from error
    told = (answer.stderr + answer.stdout).strip()
    match = re.search(r'version "(\d+)', told)
    if answer.returncode or match is None:
        first = told.splitlines()[0][:200] if told else "nothing"
        raise JavaMissingError(
            f"{java} -version ended with {answer.returncode} and said {first!r}, expected a version: {_ADVICE}"
        )
    if int(match.group(1)) < JAVA_MAJOR_MIN:
        raise JavaMissingError(f"{java} is Java {match.group(1)}, Spark needs {JAVA_MAJOR_MIN}: {_ADVICE}")
    return java


def addresses_of(master: str) -> list[tuple[str, int]]:
    """The addresses of a master's servers; [] if Spark runs here or a resource manager knows them (yarn, k8s)."""
    if is_connect(master):
        place = master.removeprefix(CONNECT_SCHEME).partition("/")[0]
        return [_address(master, place, CONNECT_PORT)]
    if master.startswith(STANDALONE_SCHEME):
        return [_address(master, place, STANDALONE_PORT) for place in master.removeprefix(STANDALONE_SCHEME).split(",")]
    return []


def _address(master: str, place: str, default_port: int) -> tuple[str, int]:
    host, colon, port = place.rpartition(":") if not place.endswith("]") else (place, "", "")
    host, port = (host, port) if colon else (place, str(default_port))
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise SparkUnavailableError(f"Spark master {master}: {place!r} is no HOST:PORT")
    return host.strip("[]"), int(port)


def require_server(master: str) -> None:
    """One of the named servers accepts a connection. Spark itself would try for minutes and print nothing."""
    places = addresses_of(master)
    problems = [problem for place in places if (problem := _connection_problem(*place))]
    if places and len(problems) == len(places):
        raise SparkUnavailableError(f"Spark master {master} cannot be reached: {'; '.join(problems)}; is it running?")


def _connection_problem(host: str, port: int) -> str:
    try:
        socket.create_connection((host, port), timeout=SERVER_ANSWER_TIMEOUT_S).close()
    except (OSError, UnicodeError) as error:
        return f"{host}:{port}: {error}"
    return ""
