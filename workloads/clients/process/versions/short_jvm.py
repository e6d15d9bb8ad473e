"""The Java client for trials of a few seconds, of which nobody measures how fast they are.

The compiler and the collector are those that begin at once. Fifteen trials in two processes, which served one after the
other, took 4.8 s of processor time so, and 7.6 s with the compiler that makes code fast after minutes. Shown by
tests/workloads/test_workloads_versions_compiled.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from workloads.clients.process.build import Built
from workloads.clients.process.versions.maven import JVM_OPTIONS

# Without the slow compiler and without threads of a collector.
_OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")


def short_lived(client: Built) -> Built:
    """The same program for short trials. One that is no JVM of ours stays as it is."""
    java, *rest = client.command
    if tuple(rest[: len(JVM_OPTIONS)]) != JVM_OPTIONS:
        return client
    return Built(command=(java, *_OPTIONS, *rest), environment=client.environment)


def is_short_lived(command: Sequence[str]) -> bool:
    """Whether `short_lived` has made this command: a start of such a client costs more than most trials ask of it."""
    return tuple(command[1 : 1 + len(_OPTIONS)]) == _OPTIONS
