"""Compiles the Java program of this directory (Client.java names its modes) against kafka-clients, once into the cache.

It also says how a JVM is started with it.

Called by the harness, which has the jars; a load process is given the result as `runtime` of its plan.
Shown by tests/workloads/test_workloads_java.py.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

PROGRAM = "Client"  # the class with the main method
_JARS = (
    "kafka-clients-*", "slf4j-api-*", "slf4j-simple-*", "lz4-java-*", "snappy-java-*", "zstd-jni-*",
    "jackson-annotations-*", "jackson-core-*", "jackson-databind-*", "jose4j-*",  # Tokens of OAUTHBEARER need them.
)  # fmt: skip
_COMPILE_TIMEOUT_S = 120


class JavaError(RuntimeError):
    """The Java client cannot be built; the message says what is missing and how to get it."""


def build(jars: Path, cache: Path, java: str) -> dict[str, str]:
    """The `runtime` of client java: its command and class path. `java` is the launcher that will be used.

    Compiled classes lie in `cache`/java-client, by a hash of the source and the jars. Two may build at once.
    """
    found = sorted(path for pattern in _JARS for path in jars.glob(f"{pattern}.jar"))
    if not any(path.name.startswith("kafka-clients-") for path in found):
        raise JavaError(f"client java needs kafka-clients-*.jar in {jars}, found none")
    sources = sorted(Path(__file__).parent.glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources))
    for path in found:
        digest.update(path.name.encode())
    classes = cache / "java-client" / digest.hexdigest()[:16]
    if not (classes / f"{PROGRAM}.class").is_file():
        _compile(sources, classes, found, _compiler(java))
    return {"java.command": java, "java.classpath": os.pathsep.join(map(str, (classes, *found)))}


def library_of(classpath: str) -> str:
    """The library with its version, as its jar is named; without a version if there is none."""
    found = re.search(r"kafka-clients-([^/]+)\.jar", classpath)
    return f"kafka-clients {found[1]} (Java)" if found else "kafka-clients (Java)"


def _compiler(java: str) -> str:
    beside = Path(java).resolve().with_name("javac")
    compiler = str(beside) if beside.is_file() else shutil.which("javac")
    if compiler is None:
        raise JavaError(f"client java needs a JDK: {java} has no javac (apt install openjdk-17-jdk-headless)")
    return compiler


def _compile(sources: list[Path], classes: Path, jars: list[Path], compiler: str) -> None:
    classes.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=classes.parent) as temporary:
        command = [
            compiler,
            "--release",
            "17",
            "-d",
            temporary,
            "-cp",
            os.pathsep.join(map(str, jars)),
            *map(str, sources),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise JavaError(f"client java: {compiler} failed: {error}") from error
        if done.returncode != 0:
            raise JavaError(f"client java: {compiler} failed:\n{done.stderr[-2000:]}")
        classes.mkdir(exist_ok=True)
        # The class that others look for is written last: if it is there, all are.
        built = sorted(Path(temporary).iterdir(), key=lambda path: path.name == f"{PROGRAM}.class")
        for path in built:
            os.replace(path, classes / path.name)
