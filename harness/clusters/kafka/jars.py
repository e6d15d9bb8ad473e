"""The jars of Apache Kafka and the JVM to run them: found, or fetched once by Maven into the cache.

Cache: $HARNESS_CACHE_DIR, else .cache/ of the checkout that this package runs from (where `make` puts what it fetches),
else $XDG_CACHE_HOME/kafka-harness (default ~/.cache/kafka-harness). Shown by tests/harness/test_harness_cache.py.
KAFKA_HARNESS_JARS names a directory of jars to use instead. Knows nothing of how nodes are started.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentFault

VERSION: Final = "4.3.1"
POM: Final = Path(__file__).with_name("pom.xml")
_NEEDED: Final = (f"kafka_2.13-{VERSION}.jar", f"kafka-tools-{VERSION}.jar", f"kafka-clients-{VERSION}.jar")
_CHECKOUT: Final = Path(__file__).resolve().parents[3]  # if the package was not installed from a wheel
_MAVEN_TIMEOUT_S: Final = 300.0
_SHOWN_MAX: Final = 4


def cache_directory() -> Path:
    """The directory for files that this project fetched."""
    own = os.environ.get("HARNESS_CACHE_DIR")
    if own:
        return Path(own)
    if (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "Makefile").is_file():
        return _CHECKOUT / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-harness"


def jar_directory() -> Path:
    return Path(os.environ.get("KAFKA_HARNESS_JARS") or cache_directory() / "kafka" / "libs")


def has_jars(directory: Path) -> bool:
    return all((directory / name).is_file() for name in _NEEDED)


def ensure_jars() -> Path:
    """The directory with all jars; runs Maven when they are missing. Raises EnvironmentFault with the fix."""
    directory = jar_directory()
    if has_jars(directory):
        return directory
    if os.environ.get("KAFKA_HARNESS_JARS"):
        raise EnvironmentFault(_of_another_version(directory))
    maven = shutil.which("mvn")
    if maven is None:
        raise EnvironmentFault(
            f"Apache Kafka {VERSION} needs its jars in {directory} and Maven to fetch them: `mvn` is not on PATH. "
            "Install Maven (apt install maven), or set KAFKA_HARNESS_JARS to a directory that holds the jars"
        )
    directory.mkdir(parents=True, exist_ok=True)
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={directory}"]
    try:
        done = subprocess.run(
            [maven, "-B", "-ntp", "-q", "-f", str(POM), *goal], capture_output=True, text=True, timeout=_MAVEN_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFault(f"Maven did not finish within {_MAVEN_TIMEOUT_S:.0f} s: {' '.join(goal)}") from error
    if done.returncode != 0 or not has_jars(directory):
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-8:])
        raise EnvironmentFault(f"Maven could not fetch Apache Kafka {VERSION} (exit {done.returncode}):\n{tail}")
    return directory


def _of_another_version(directory: Path) -> str:
    """Of a directory that the user names: it is his, and nothing is added to it."""
    there = sorted(path.name for path in directory.glob("kafka*.jar")) if directory.is_dir() else []
    shown = ", ".join(there[:_SHOWN_MAX]) or ("no jar of Kafka" if directory.is_dir() else "no directory")
    missing = ", ".join(name for name in _NEEDED if name not in there)
    return (
        f"KAFKA_HARNESS_JARS={directory}: expected the jars of Apache Kafka {VERSION}, "
        f"{missing} is missing; got {shown}. "
        "Name a directory that has them, or leave the variable out and Maven brings them into the cache"
    )


def java_command() -> str:
    """JAVA_HOME's java, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        return str(Path(home) / "bin" / "java")
    java = shutil.which("java")
    if java is None:
        raise EnvironmentFault(
            "no Java: set JAVA_HOME or put java (17 or newer) on PATH (apt install openjdk-17-jre-headless)"
        )
    return java
