"""The Docker engine of this host: the connection, the questions to it, and what crashed runs have left in it.

Containers and networks carry the pid and start time of the harness that made them, and its place. So a later harness
can tell which are abandoned, also if hosts or containers share an engine. Only harness/clusters/docker imports the
docker package. Shown by tests/harness/test_harness_docker.py.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import docker
from docker.errors import DockerException, ImageNotFound

from chaos.lease import ProcessIdentity, is_alive, read_identity
from harness.errors import EnvironmentFault
from runlog.files.place import Place, here

IMAGE_VARIABLE: Final = "HARNESS_DOCKER_IMAGE"
DEFAULT_IMAGE: Final = "kafka-harness:local"
OWNER_LABEL: Final = "kafka-harness.owner"
PLACE_LABEL: Final = "kafka-harness.place"
# A container stop waits for its grace period inside the call.
CALL_TIMEOUT_S: Final = 30


def connect() -> Any:
    """A client of the engine that DOCKER_HOST or the default socket names. EnvironmentFault with what to do."""
    try:
        client = docker.from_env(timeout=CALL_TIMEOUT_S)
        client.ping()
    except DockerException as error:
        raise EnvironmentFault(
            f"no Docker engine answers at {os.environ.get('DOCKER_HOST', 'unix:///var/run/docker.sock')}: {error}. "
            "Start one (`systemctl start docker`), or set DOCKER_HOST; `--cluster reference` needs none"
        ) from error
    return client


def image(client: Any) -> str:
    """The image that brokers run from. EnvironmentFault, and no attempt to pull, when it is not there."""
    name = os.environ.get(IMAGE_VARIABLE, DEFAULT_IMAGE)
    try:
        client.images.get(name)
    except ImageNotFound:
        raise EnvironmentFault(
            f"image {name} is not on this host. Build it: docker build --target runtime -f containers/Dockerfile "
            f"-t {name} . (without a registry, containers/local-base first)"
        ) from None
    return name


def owner_labels() -> dict[str, str]:
    identity = read_identity(os.getpid())
    assert identity is not None
    return {OWNER_LABEL: f"{identity.pid}-{identity.start_ticks}", PLACE_LABEL: json.dumps(here().as_json())}


def is_engine_near() -> bool:
    """True if an engine can be asked without waiting. Without Docker the harness must not wait for one."""
    return "DOCKER_HOST" in os.environ or Path("/var/run/docker.sock").exists()


def reap_containers() -> list[str]:
    """Remove what harnesses that are gone have left; a line for each. Nothing when no engine answers."""
    if not is_engine_near():
        return []
    try:
        client = connect()
    except EnvironmentFault:
        return []
    done = []
    wanted = {"label": OWNER_LABEL}
    try:
        for container in client.containers.list(all=True, filters=wanted):
            if is_abandoned(container.labels):
                container.remove(force=True, v=True)
                done.append(f"removed container {container.name}")
        for network in client.networks.list(filters=wanted):
            if is_abandoned(network.attrs.get("Labels") or {}):
                network.remove()
                done.append(f"removed network {network.name}")
    except DockerException as error:
        done.append(f"could not remove all containers: {error}")
    finally:
        client.close()
    return done


def is_abandoned(labels: Mapping[str, str]) -> bool:
    """The harness that made it is gone, seen from the same place. False for another place, and without our labels."""
    found = re.fullmatch(r"([0-9]{1,10})-([0-9]{1,18})", labels.get(OWNER_LABEL, ""))
    if found is None:
        return False
    try:
        where = Place.from_json(json.loads(labels.get(PLACE_LABEL, "null"))).seen_from(here())
    except (ValueError, RecursionError):
        return False
    owner = ProcessIdentity(pid=int(found[1]), start_ticks=int(found[2]))
    return where == "before a restart" or (where == "here" and not is_alive(owner))
