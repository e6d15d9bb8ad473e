"""The clients of the table: what each is called, how its driver is started, what must be installed before.

`prepare` builds or fetches once into the cache and says why it cannot, which then stands in the table.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.clusters.kafka.jars import cache_directory, ensure_jars, java_command
from tests.patience import run_command

DRIVERS = Path(__file__).parent / "drivers"


class CannotPrepare(Exception):
    """What is missing on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    version: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKind:
    name: str
    language: str
    prepare: Callable[[], Prepared]


def _python(package: str, driver: str) -> Callable[[], Prepared]:
    def prepare() -> Prepared:
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError as error:
            raise CannotPrepare(f"{package} is not installed: make setup-dev") from error
        return Prepared(version=version, command=(sys.executable, str(DRIVERS / driver)))

    return prepare


def _confluent() -> Prepared:
    prepared = _python("confluent-kafka", "confluent_driver.py")()
    import confluent_kafka

    return Prepared(
        version=f"{prepared.version} (librdkafka {confluent_kafka.libversion()[0]})", command=prepared.command
    )


def _kcat() -> Prepared:
    program = shutil.which("kcat") or shutil.which("kafkacat")
    if program is None:
        raise CannotPrepare("kcat is not installed (apt install kcat)")
    done = subprocess.run([program, "-V"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"Version (\S+).*librdkafka (\S+)", done.stdout + done.stderr, re.DOTALL)
    version = f"{found[1]} (librdkafka {found[2]})" if found else "?"
    command = (sys.executable, str(DRIVERS / "kcat_driver.py"))
    return Prepared(version=version, command=command, environment={"KCAT": program})


def execute(command: list[str], cwd: Path, **environment: str) -> None:
    if shutil.which(command[0]) is None:
        raise CannotPrepare(f"{command[0]} is not installed")
    done = run_command(command, cwd=cwd, env={**os.environ, **environment})
    if done.returncode != 0:
        raise CannotPrepare(f"{' '.join(command[:3])} failed: {(done.stdout + done.stderr)[-2000:]}")


def built(name: str) -> Path:
    place = cache_directory() / "compatibility" / name
    place.mkdir(parents=True, exist_ok=True)
    return place


def compiled(name: str, jars: Path) -> Path:
    """The directory of the classes of drivers/java; compiled against each library, when the sources are newer."""
    classes, paths = built(name), sorted((DRIVERS / "java").glob("*.java"))
    newest = max(path.stat().st_mtime for path in paths)
    found = [classes / path.with_suffix(".class").name for path in paths]
    if not all(path.is_file() and path.stat().st_mtime >= newest for path in found):
        execute(["javac", "-nowarn", "-d", str(classes), "-cp", f"{jars}/*", *map(str, paths)], DRIVERS)
    return classes


def _java(jars: Callable[[], Path], version: str, compiled_against: str = "") -> Callable[[], Prepared]:
    """What only later libraries have is looked up by name in the source, so that an older one can be tried as well.
    For libraries with which the source does not compile, `compiled_against` names another version. A call that the
    older one lacks then fails when it is made, and the driver says so."""

    def prepare() -> Prepared:
        libraries = jars()
        interface = _old_jars(compiled_against)() if compiled_against else libraries
        classes = compiled(f"java-{compiled_against or version}", interface)
        command = (
            java_command(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{classes}:{libraries}/*", "Driver", "clients",
        )  # fmt: skip
        return Prepared(version=version, command=command)

    return prepare


def _old_jars(version: str) -> Callable[[], Path]:
    """The jars of an older kafka-clients, by Maven into the cache."""

    def fetch() -> Path:
        libraries = built(f"kafka-clients-{version}")
        if not (libraries / f"kafka-clients-{version}.jar").is_file():
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={libraries}", f"-Dkafka.version={version}"]
            execute(["mvn", "-B", "-ntp", "-q", "-f", str(DRIVERS / "java" / "pom.xml"), *goal], DRIVERS)
        return libraries

    return fetch


def _go(library: str, module: str, suffix: str = "") -> Callable[[], Prepared]:
    def prepare() -> Prepared:
        program, source = built("go") / "driver", DRIVERS / "go"
        newest = max(path.stat().st_mtime for path in source.iterdir())
        if not program.is_file() or program.stat().st_mtime < newest:
            execute(["go", "build", "-o", str(program), "."], source, GOFLAGS="-mod=readonly")
        found = re.search(rf"{re.escape(module)} v(\S+)", (source / "go.mod").read_text())
        return Prepared(version=(found[1] if found else "?") + suffix, command=(str(program), library))

    return prepare


def _node() -> Prepared:
    """Node is no part of a machine that this project asks for: without it the column says so."""
    source, place = DRIVERS / "node", built("node")
    lock = (source / "package-lock.json").read_text()
    installed = place / "package-lock.json"
    if not (place / "node_modules").is_dir() or not installed.is_file() or installed.read_text() != lock:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(source / name, place / name)
        execute(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], place)
    version = json.loads(lock)["packages"]["node_modules/kafkajs"]["version"]
    environment = {"NODE_PATH": str(place / "node_modules"), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    return Prepared(version=version, command=("node", str(source / "kafkajs_driver.js")), environment=environment)


CLIENTS = (
    ClientKind(name="confluent-kafka", language="C, Python", prepare=_confluent),
    ClientKind(name="kcat", language="C", prepare=_kcat),
    ClientKind(name="Java 4.3.1", language="Java", prepare=_java(ensure_jars, "4.3.1")),
    ClientKind(name="Java 3.9", language="Java", prepare=_java(_old_jars("3.9.1"), "3.9.1")),
    ClientKind(name="Java 2.8", language="Java", prepare=_java(_old_jars("2.8.2"), "2.8.2")),
    ClientKind(name="Java 2.1", language="Java", prepare=_java(_old_jars("2.1.1"), "2.1.1", compiled_against="2.8.2")),
    ClientKind(name="aiokafka", language="Python", prepare=_python("aiokafka", "aiokafka_driver.py")),
    ClientKind(name="kafka-python", language="Python", prepare=_python("kafka-python", "kafka_python_driver.py")),
    ClientKind(name="franz-go", language="Go", prepare=_go("franz", "github.com/twmb/franz-go")),
    ClientKind(name="sarama", language="Go", prepare=_go("sarama", "github.com/IBM/sarama", ", as 2.8.0 (default)")),
    ClientKind(
        name="sarama newest", language="Go", prepare=_go("sarama-newest", "github.com/IBM/sarama", ", as 4.3.1")
    ),
    ClientKind(name="kafkajs", language="JavaScript", prepare=_node),
)
