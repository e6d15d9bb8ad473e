"""Finds or builds, before a run, what a client needs beside its properties. This is the JVM of client `java`.

Knows the jars (harness/clusters/kafka) and the build (workloads/clients/java/build.py), and nothing of cells.
"""

from __future__ import annotations

from functools import cache

from harness.clusters.kafka.jars import cache_directory, ensure_jars, java_command
from harness.errors import EnvironmentFault
from workloads.clients.java import build


@cache
def client_runtime(client: str) -> dict[str, str]:
    """`runtime` of the load's plan. EnvironmentFault says what is missing and how to get it."""
    if client != "java":
        return {}
    try:
        return build.build(ensure_jars(), cache_directory(), java_command())
    except build.JavaError as error:
        raise EnvironmentFault(str(error)) from error
