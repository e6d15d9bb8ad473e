"""What a run needs outside of itself, checked before it has a directory: addresses, trust stores, SASL, a proxy server,
Java.

What can never work is reported at once. An address is reported within two seconds if nobody answers there, or if it
accepts a connection and then is silent. Nothing is started or changed. Shown by
tests/harness/test_harness_preflight.py.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from harness.clusters.base import Address
from harness.clusters.external import parse_bootstrap
from harness.clusters.kafka.jars import check_java, ensure_jars, has_jars, jar_directory, java_command, java_major
from harness.clusters.proxies import AUTO, EMBEDDED
from harness.clusters.requests.probe import BrokerProbe
from harness.clusters.security import Security, read_security
from harness.errors import EnvironmentFault, UsageError
from harness.kafka_releases import DEFAULT, Release
from harness.run.generator.client_runtime import client_runtime
from harness.terminal.tables import print_fitting

CONNECT_TIMEOUT_S: Final = 1.5
ANSWER_TIMEOUT_S: Final = 1.8  # Each exchange has this time, so a peer that is slow but alive gets it again.
_ADDRESSES_TRIED_MAX: Final = 16
_TOXIPROXY_PORT: Final = 8474


def check_world(
    *,
    engine: str,
    clients: Sequence[str],
    proxy_choice: str,
    bootstrap: str | None,
    client_config: Path | None,
    releases: Sequence[Release] = (DEFAULT,),
) -> None:
    """UsageError or EnvironmentFault for the first thing that is missing and without which the run is not possible."""
    if proxy_choice not in (AUTO, EMBEDDED):
        _check_proxy_server(proxy_choice)
    if engine == "external":
        assert bootstrap is not None, "the plan asks for it"
        check_cluster(parse_bootstrap(bootstrap), client_config)
    if engine == "kafka":
        check_releases(releases)
    for client in dict.fromkeys(clients):
        client_runtime(client)


def check_releases(releases: Sequence[Release]) -> None:
    """Their jars are there, or are fetched now, and the Java is one for them. A note on stderr if it is one that a
    release is not documented for. UsageError or EnvironmentFault names the first that cannot be had."""
    major = java_major(java_command())
    for release in releases:
        if note := check_java(release, major):
            print_fitting(f"note: {note}", to_stderr=True, hanging=2)
        if not has_jars(jar_directory(release), release):
            print_fitting(f"fetching Apache Kafka {release}, once: half a minute", to_stderr=True)
        ensure_jars(release)


def unreachable(host: str, port: int, timeout_s: float = CONNECT_TIMEOUT_S) -> str:
    """Why no connection is possible; empty if the connection was accepted."""
    try:
        socket.create_connection((host, port), timeout=timeout_s).close()
    except socket.gaierror:
        return f"the name {host} is not known here"
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def _check_proxy_server(url: str) -> None:
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port or _TOXIPROXY_PORT
    except ValueError as error:
        raise UsageError(f"--toxiproxy {url}: {error}") from error
    if not host:
        raise UsageError(f"--toxiproxy {url}: expected a URL like http://127.0.0.1:{_TOXIPROXY_PORT}")
    if problem := _problems([Address(host=host, port=port)])[0]:
        raise EnvironmentFault(
            f"--toxiproxy {url}: {problem}; start toxiproxy-server there, or take --toxiproxy embedded"
        )


def _problems(addresses: Sequence[Address]) -> list[str]:
    """Problems of all addresses, checked at the same time. A name server that does not answer costs no more time than a
    broker that does not."""
    pool = ThreadPoolExecutor(max_workers=len(addresses))
    asked = [pool.submit(unreachable, address.host, address.port) for address in addresses]
    pool.shutdown(wait=False)
    found = []
    for each in asked:
        try:
            found.append(each.result(timeout=CONNECT_TIMEOUT_S + 0.3))
        except NotInTime:
            found.append("its name is not answered")
    return found


def check_cluster(addresses: Sequence[Address], client_config: Path | None) -> None:
    """EnvironmentFault if no address answers as a Kafka broker; UsageError for a configuration that cannot be used."""
    with tempfile.TemporaryDirectory() as scratch:
        security = None if client_config is None else read_security(client_config, Path(scratch))
        tried = addresses[:_ADDRESSES_TRIED_MAX]
        problems = _problems(tried)
        there = [address for address, problem in zip(tried, problems, strict=True) if not problem]
        if not there:
            told = "; ".join(f"{address}: {problem}" for address, problem in zip(tried, problems, strict=True))
            raise EnvironmentFault(f"--bootstrap-server: nobody can be reached ({told})")
        if not _any_answers(there, security):
            hint = (
                "; it was asked as --client-config says: does this listener speak that security.protocol?"
                if security
                else "; if the cluster asks for TLS or SASL, give --client-config FILE"
            )
            raise EnvironmentFault(
                f"--bootstrap-server: {', '.join(map(str, there))} takes connections but does not answer as a Kafka "
                f"broker{hint}"
            )


def _any_answers(addresses: Sequence[Address], security: Security | None) -> bool:
    """Asks all at the same time, so several silent ones cost no more time than one. Raises the error of the
    first one."""
    with ThreadPoolExecutor(max_workers=len(addresses)) as pool:
        return any(list(pool.map(lambda address: _answers(address, security), addresses)))


def _answers(address: Address, security: Security | None) -> bool:
    probe = BrokerProbe(replace(address, security=security), timeout_s=ANSWER_TIMEOUT_S)
    try:
        return bool(probe.broker_addresses())
    finally:
        probe.close()
