"""The jars of a release of Apache Kafka: found, or fetched once by Maven into the cache. And the JVM to run them.

Cache: $HARNESS_CACHE_DIR, else .cache/ of the checkout that this package runs from (where `make` puts what it fetches),
else $XDG_CACHE_HOME/kafka-harness (default ~/.cache/kafka-harness). Shown by tests/harness/test_harness_cache.py.
KAFKA_HARNESS_JARS names a directory of jars to use instead, for the release that is in it. A directory in the cache is
complete: Maven fetches into one beside it, which then gets its name. Knows nothing of how nodes are started. Shown by
tests/harness/test_harness_kafka_jars.py.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentFault, UsageError
from harness.kafka_releases import DEFAULT, Release, java_of, near_release, parse_release

VERSION: Final = str(DEFAULT)  # also of the tools and of the client `java`
POM: Final = Path(__file__).with_name("pom.xml")
RESOLVED: Final = "resolved.txt"  # in each directory that was fetched: group, artifact and version of each jar
_CHECKOUT: Final = Path(__file__).resolve().parents[3]  # if the package was not installed from a wheel
_MAVEN_TIMEOUT_S: Final = 300.0
_JAVA_TIMEOUT_S: Final = 20.0
_POLL_S: Final = 0.2
_SHOWN_MAX: Final = 4
_BROKER_JAR: Final = re.compile(r"kafka_2\.13-(\d+\.\d+\.\d+)\.jar")
# What Maven says of a version that a repository does not have. Without the network it says something else.
_NOT_THERE: Final = re.compile(r"Could not find artifact org\.apache\.kafka:|Failure to find org\.apache\.kafka:")
_VERSION_OF_JAVA: Final = re.compile(r'version "(\d+)')


def cache_directory() -> Path:
    """The directory for files that this project fetched."""
    own = os.environ.get("HARNESS_CACHE_DIR")
    if own:
        return Path(own)
    if (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "Makefile").is_file():
        return _CHECKOUT / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-harness"


def jar_directory(release: Release = DEFAULT) -> Path:
    """Where the jars of the release are, or will be."""
    named = os.environ.get("KAFKA_HARNESS_JARS")
    if named and (release == DEFAULT or release == _release_in(Path(named))):
        return Path(named)
    return cache_directory() / "kafka" / ("libs" if release == DEFAULT else str(release))


def has_jars(directory: Path, release: Release = DEFAULT) -> bool:
    return all((directory / name).is_file() for name in _needed(release))


def ensure_jars(release: Release = DEFAULT) -> Path:
    """The directory with all jars; runs Maven when they are missing. EnvironmentFault with the fix, or UsageError if
    there is no such release."""
    directory = jar_directory(release)
    if has_jars(directory, release):
        return directory
    if os.environ.get("KAFKA_HARNESS_JARS") == str(directory):
        raise EnvironmentFault(_of_another_version(directory, release))
    maven = shutil.which("mvn")
    if maven is None:
        raise EnvironmentFault(
            f"Apache Kafka {release} needs its jars in {directory} and Maven to fetch them: `mvn` is not on PATH. "
            "Install Maven (apt install maven), or set KAFKA_HARNESS_JARS to a directory that holds the jars"
        )
    with _alone(directory, release):
        if not has_jars(directory, release):  # another process may have fetched them meanwhile
            _fetch(maven, directory, release)
    return directory


def fetched_releases() -> tuple[Release, ...]:
    """The releases whose jars are in the cache beside those of the default, the oldest first."""
    root = cache_directory() / "kafka"
    found = (_release_in(path) for path in root.iterdir()) if root.is_dir() else ()
    return tuple(
        sorted(each for each in found if each is not None and each != DEFAULT and has_jars(jar_directory(each), each))
    )


def _fetch(maven: str, directory: Path, release: Release) -> None:
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as scratch:
        halfway = Path(scratch) / "jars"
        goals = [
            "dependency:list", f"-DoutputFile={halfway / RESOLVED}",
            "dependency:copy-dependencies", f"-DoutputDirectory={halfway}",
        ]  # fmt: skip
        command = [maven, "-B", "-ntp", "-q", "-f", str(POM), f"-Dkafka.version={release}", *goals]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_MAVEN_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise EnvironmentFault(
                f"Maven did not fetch Apache Kafka {release} within {_MAVEN_TIMEOUT_S:.0f} s: {' '.join(goals)}"
            ) from error
        if done.returncode != 0 or not has_jars(halfway, release):
            raise _not_fetched(release, done)
        if directory.exists():  # jars of the default were copied here by hand, or by an earlier version, and not all
            shutil.rmtree(directory)
        halfway.rename(directory)


def _not_fetched(release: Release, done: subprocess.CompletedProcess[str]) -> EnvironmentFault | UsageError:
    told = done.stdout + done.stderr
    if _NOT_THERE.search(told):
        return UsageError(f"Apache Kafka {release}: Maven finds no such release{near_release(release)}")
    tail = "\n".join(told.splitlines()[-8:])
    return EnvironmentFault(f"Maven could not fetch Apache Kafka {release} (exit {done.returncode}):\n{tail}")


@contextmanager
def _alone(directory: Path, release: Release) -> Iterator[None]:
    """One process fetches a release at a time; others wait for it, at most as long as it may take."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + _MAVEN_TIMEOUT_S
    # The file stays. If it were removed, somebody could lock a new file of this name while this one is still locked.
    lock = os.open(directory.parent / f".{directory.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise EnvironmentFault(
                        f"another process fetches Apache Kafka {release} into {directory.parent} for more than "
                        f"{_MAVEN_TIMEOUT_S:.0f} s: end it, and try again"
                    ) from None
                time.sleep(_POLL_S)
        yield
    finally:
        os.close(lock)


def _needed(release: Release) -> tuple[str, ...]:
    return f"kafka_2.13-{release}.jar", f"kafka-tools-{release}.jar", f"kafka-clients-{release}.jar"


def _release_in(directory: Path) -> Release | None:
    """The release whose broker is in a directory; None if there is none, or several."""
    found = [match[1] for path in directory.glob("kafka_2.13-*.jar") if (match := _BROKER_JAR.fullmatch(path.name))]
    if len(found) != 1:
        return None
    try:
        return parse_release(found[0])
    except UsageError:
        return None


def _of_another_version(directory: Path, release: Release) -> str:
    """The directory is one that the user names. It is his, and nothing is added to it."""
    there = sorted(path.name for path in directory.glob("kafka*.jar")) if directory.is_dir() else []
    shown = ", ".join(there[:_SHOWN_MAX]) or ("no jar of Kafka" if directory.is_dir() else "no directory")
    missing = ", ".join(name for name in _needed(release) if name not in there)
    inside = _release_in(directory)
    other = "" if inside in (None, release) else f"take --cluster kafka=={inside}, "
    return (
        f"KAFKA_HARNESS_JARS={directory}: expected the jars of Apache Kafka {release}, "
        f"{missing} is missing; got {shown}. "
        f"Name a directory that has them, {other}or leave the variable out and Maven brings them into the cache"
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


def java_major(java: str) -> int | None:
    """The major version that `java -version` tells; None if it tells none. `1.8` is 8."""
    done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S)
    text = (done.stderr or done.stdout).replace('"1.', '"')
    found = _VERSION_OF_JAVA.search(text)
    return int(found[1]) if found and done.returncode == 0 else None


def check_java(release: Release, major: int | None) -> str:
    """A note if the release's documentation does not name this Java; empty if it does, or the Java is not known.
    EnvironmentFault if the release cannot run on it."""
    wanted = java_of(release)
    if major is None or wanted.oldest <= major <= wanted.newest:
        return ""
    if major < wanted.oldest:
        raise EnvironmentFault(
            f"Apache Kafka {release} needs Java {wanted.oldest} to {wanted.newest}, and this is Java {major}: set "
            f"JAVA_HOME to one of them (apt install openjdk-{wanted.oldest}-jre-headless)"
        )
    return f"Apache Kafka {release} is documented for Java {wanted.oldest} to {wanted.newest}, and this is Java {major}"
