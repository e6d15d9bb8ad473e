"""Finds or builds, before a run, what a client needs beside its properties: a JVM, or a program of another language.

Knows the jars (harness/clusters/kafka) and the builds (workloads/clients/java/build.py, workloads/clients/process), and
nothing of cells.
"""

from __future__ import annotations

from functools import cache

from harness.clusters.kafka.jars import cache_directory, ensure_jars, java_command
from harness.errors import EnvironmentFault, UsageError
from harness.run.terminal_tables import print_fitting
from workloads.clients.java import build
from workloads.clients.process.build import RECIPES, BuildError, built, is_built, runtime_of
from workloads.clients.process.library import command_of, is_command, use
from workloads.clients.protocol import ClientError


@cache
def client_runtime(client: str) -> dict[str, str]:
    """`runtime` of the load's plan. EnvironmentFault says what is missing and how to get it; UsageError if the client
    is a program that is not there."""
    if client == "java":
        try:
            return build.build(ensure_jars(), cache_directory(), java_command())
        except build.JavaError as error:
            raise EnvironmentFault(str(error)) from error
    if is_command(client):
        try:
            return runtime_of(command_of(client))
        except ClientError as error:
            raise UsageError(str(error)) from error
    if client in RECIPES:
        if not is_built(client, cache_directory()):
            print_fitting(f"building client {client}, once: a minute or two", to_stderr=True)
        try:
            found = built(client, cache_directory())
        except BuildError as error:
            raise EnvironmentFault(str(error)) from error
        use(client, found)
        return runtime_of(found)
    return {}
