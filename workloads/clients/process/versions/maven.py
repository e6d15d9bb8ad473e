"""Apache Kafka's Java client from Maven Central: `kafka-clients` in a version of one's choice, and our program compiled
against it by javac. It compiles against 2.1.0 and newer; older ones do not speak with Apache Kafka 4."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workloads.clients.process.build import Built
from workloads.clients.process.making import StepFailed, run_step
from workloads.clients.process.shipped import sources
from workloads.clients.process.versions.installers import NoSuchVersion, Tool

_LIBS: Final = "libs"
_CLASSES: Final = "classes"
_JAR: Final = re.compile(r"(.+?)-(\d[^/]*)\.jar")
_NOT_THERE: Final = ("Could not find artifact", "was not found in", "Failure to find")
# Share groups of 4.0 spoke a version of the protocol that later brokers do not know.
_SHARES_FROM: Final = (4, 1)
_SHARES: Final = "Sharing.java"
# As of the load client `java`: many JVMs run on one host.
JVM_OPTIONS: Final = ("-Xms64m", "-Xmx512m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Maven:
    language: str
    group: str
    artifact: str
    version_property: str  # The property of our pom.xml that has the version.
    registry: str = "Maven Central"

    @property
    def tools(self) -> Sequence[Tool]:
        return (
            Tool("mvn", "install Maven (apt install maven)"),
            Tool(_of_jdk("javac"), "install a JDK, 17 or newer (apt install openjdk-17-jdk-headless)"),
        )

    @property
    def sources(self) -> Mapping[str, str]:
        return sources(self.language)

    def install(self, client: str, version: str, directory: Path) -> Mapping[str, str]:
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={_LIBS}"]
        try:
            run_step(client, ["mvn", "-B", "-ntp", "-q", f"-D{self.version_property}={version}", *goal], directory)
        except StepFailed as error:
            jar = f"{self.group}:{self.artifact}:jar:{version}"
            if jar in error.output and any(words in error.output for words in _NOT_THERE):
                why = f"{self.registry} has no {self.group}:{self.artifact} {version}"
                raise NoSuchVersion(client, why, version, ()) from error  # Maven does not tell what else there is
            raise
        files = [name for name in self.sources if name.endswith(".java")]
        if _numbers(version) < _SHARES_FROM:
            files.remove(_SHARES)
        compiler = [_of_jdk("javac"), "--release", "17", "-nowarn", "-d", _CLASSES, "-cp", f"{_LIBS}/*"]
        run_step(client, [*compiler, *files], directory)
        found = (_JAR.fullmatch(path.name) for path in (directory / _LIBS).iterdir())
        java = run_step(client, [_of_jdk("javac"), "-version"], directory).split()[-1]
        return {**{jar[1]: jar[2] for jar in found if jar is not None}, "java": java}

    def start(self, directory: Path) -> Built:
        path = os.pathsep.join((str(directory / _CLASSES), f"{directory / _LIBS}/*"))
        return Built(command=(_of_jdk("java"), *JVM_OPTIONS, "-cp", path, "Client"))


def _of_jdk(program: str) -> str:
    """JAVA_HOME's, else the one on PATH."""
    own = Path(os.environ.get("JAVA_HOME") or "/nonexistent") / "bin" / program
    return str(own) if own.is_file() else program


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
