"""The Java client for trials of a few seconds, of which nobody measures how fast they are.

Half of the processor time until such a JVM has connected goes into loading classes. So the classes that any client
needs are kept once in an archive beside the client, as class data sharing of the JDK has it (JEP 350), and the compiler
and the collector are those that begin at once. With kafka-clients 4.4.0 a client that connects to nobody, subscribes,
polls and closes took 0.93 s without the archive and 0.44 s with it (medians of three). In whole trials, which load more
classes than the archive has, six clients took 7.7 to 8.3 s and 8.4 s. A JVM that cannot use an archive goes on without
it. Shown by tests/workloads/test_workloads_versions_compiled.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from workloads.clients.process.build import Built
from workloads.clients.process.making import alone, made, run_step
from workloads.clients.process.versions.maven import CLASSES, JVM_OPTIONS, LIBS, of_jdk

# Without the compiler that makes code fast after minutes, without threads of a collector, and without a word on
# standard output if the archive does not fit the JVM any more.
_OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xshare:auto", "-Xlog:disable")
_JARS: Final = "short"
_ARCHIVE: Final = "short.jsa"
_TRAINING_S: Final = 60.0
# A life of each role. Nobody listens at the address.
_NOBODY: Final = {"bootstrap.servers": "127.0.0.1:1"}
_TRAINING: Final = (
    {"do": "connect", "role": "consumer", "timeout_ms": 2_000, "properties": {**_NOBODY, "group.id": "g"}},
    {"do": "subscribe", "topics": ["t"], "timeout_ms": 500},
    {"do": "poll", "max_records": 10, "timeout_ms": 300},
    {"do": "close", "timeout_ms": 300},
    {
        "do": "connect",
        "role": "producer",
        "timeout_ms": 2_000,
        "failed_codes": [],
        "properties": {**_NOBODY, "max.block.ms": "300"},
    },
    {"do": "flush", "timeout_ms": 300},
    {"do": "close", "timeout_ms": 300},
)


def short_lived(client: Built) -> Built:
    """The same program for short trials. One that is no JVM of ours stays as it is."""
    java, *rest = client.command
    if tuple(rest[: len(JVM_OPTIONS)]) != JVM_OPTIONS:
        return client
    shared, path = list[str](), rest[rest.index("-cp") + 1]
    # The archive is of the jars at their places, so nobody may come by another path.
    classes = Path(path.partition(os.pathsep)[0]).resolve()
    if (archived := _archived(java, classes.parent)) is not None:
        archive, path = archived
        shared = [f"-XX:SharedArchiveFile={archive}"]
    return Built(
        command=(java, *_OPTIONS, *shared, *JVM_OPTIONS, "-cp", path, "Client"), environment=client.environment
    )


def is_short_lived(command: Sequence[str]) -> bool:
    """Whether `short_lived` has made this command."""
    return tuple(command[1 : 1 + len(_OPTIONS)]) == _OPTIONS


def _archived(java: str, directory: Path) -> tuple[Path, str] | None:
    """The archive and the class path that it was made with. None if this JDK makes none. A class path of directories
    cannot be archived, and the archive knows the places of its jars, so these are made first."""
    if not (directory / CLASSES).is_dir():
        return None
    archive = directory / _ARCHIVE
    with suppress(OSError, subprocess.SubprocessError, RuntimeError):
        place = made(directory / _JARS, lambda made_in: _pack(directory / CLASSES, made_in))
        jars = [place / "client.jar", *sorted((directory / LIBS).glob("*.jar"))]
        path = os.pathsep.join(map(str, jars))
        if not archive.is_file():
            with alone(archive):
                _train(java, path, archive)
        return (archive, path) if archive.is_file() else None
    return None


def _pack(classes: Path, made_in: Path) -> None:
    run_step(
        "java", [of_jdk("jar"), "--create", "--file", str(made_in / "client.jar"), "-C", str(classes), "."], made_in
    )


def _train(java: str, path: str, archive: Path) -> None:
    if archive.is_file():
        return
    growing = archive.with_name(f".{archive.name}.growing")
    lines = "".join(json.dumps({**command, "id": number}) + "\n" for number, command in enumerate(_TRAINING, 1))
    command = (java, *_OPTIONS, f"-XX:ArchiveClassesAtExit={growing}", *JVM_OPTIONS, "-cp", path, "Client")
    subprocess.run(command, input=lines.encode(), capture_output=True, timeout=_TRAINING_S, check=True)
    os.replace(growing, archive)
