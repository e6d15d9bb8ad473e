"""Finds or builds, before a run, what a client needs beside its properties: a JVM, or a program of another language.

Knows the jars (harness/clusters/kafka) and the builds (workloads/clients/java/build.py, workloads/clients/process), and
nothing of cells.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Final

from harness.clusters.kafka.jars import cache_directory, ensure_jars, java_command
from harness.errors import EnvironmentFault, UsageError
from harness.terminal.tables import print_fitting
from workloads.clients import is_client
from workloads.clients.process import shipped
from workloads.clients.process.build import RECIPES, Built, built, is_built, runtime_of
from workloads.clients.process.library import command_of, is_command, process_library, use
from workloads.clients.process.making import BuildError
from workloads.clients.process.versions.installers import NoSuchVersion
from workloads.clients.process.versions.installing import has_version, installed, is_installed
from workloads.clients.protocol import ClientError

# Clients whose library is one of this Python; the program is a file of the package.
_IN_PYTHON: Final = {
    "confluent": "python/client.py",
    "aiokafka": "python_clients/aiokafka_client.py",
    "kafka_python": "python_clients/kafka_python_client.py",
}


@cache
def client_runtime(client: str) -> dict[str, str]:
    """`runtime` of the load's plan. EnvironmentFault says what is missing and how to get it; UsageError if the client
    is a program that is not there."""
    if client == "java":
        from workloads.clients.java import build  # It knows all of the load; other clients start sooner without it.

        try:
            return build.build(ensure_jars(), cache_directory(), java_command())
        except build.JavaError as error:
            raise EnvironmentFault(str(error)) from error
    if is_command(client):
        try:
            return runtime_of(command_of(client))
        except ClientError as error:
            raise UsageError(str(error)) from error
    if has_version(client):
        found = _in_version(client)
        use(client, found)
        return runtime_of(found)
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


def _in_version(client: str) -> Built:
    """UsageError if there is no such version."""
    if not is_installed(client, cache_directory()):
        print_fitting(f"installing client {client}, once: a minute or two", to_stderr=True)
    try:
        return installed(client, cache_directory())
    except NoSuchVersion as error:
        raise UsageError(str(error)) from error
    except BuildError as error:
        raise EnvironmentFault(str(error)) from error


def client_program(client: str, *, what: str) -> Built:
    """The program that speaks the client protocol, for commands that talk with it themselves: `what` ("be searched").
    UsageError if this client is none."""
    if client in _IN_PYTHON:
        return Built(command=(sys.executable, str(Path(shipped.__file__).parent / _IN_PYTHON[client])))
    if client in RECIPES or has_version(client):
        client_runtime(client)
        found = process_library(client).built
        assert found is not None
        return found
    if not is_client(client):
        # It knows scenarios and suites, whose import takes a second: only who is told of a mistake waits for it.
        from harness.setting_places import near_client

        raise UsageError(f"--client {client}: no such client{near_client(client)}")
    names = (*_IN_PYTHON, *RECIPES)
    raise UsageError(
        f"--client {client}: cannot {what}; {', '.join(names)} can, each of them in a version ({names[0]}==2.4.0), and "
        "each program that speaks the client protocol"
    )
