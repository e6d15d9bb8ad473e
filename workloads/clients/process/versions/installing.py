"""From `NAME==VERSION` to a command that speaks the client protocol. Installed once, into a directory of its own, where
`resolved.json` says what it is made of.

A directory is named by client, version and a digest of what it is made from, so a change of our program makes another
one. Called by the harness before anything is started; load processes get the command by the plan's runtime.
Shown by tests/workloads/test_workloads_versions.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from runlog.files.nearest import nearest_name
from workloads.clients.process.build import Built, digest_of, write_files
from workloads.clients.process.making import BuildError, made
from workloads.clients.process.versions.installers import Installer, missing_tool
from workloads.clients.process.versions.names import SEPARATOR, Versioned, is_version, versioned
from workloads.clients.process.versions.nearest import in_order
from workloads.clients.process.versions.table import VERSIONS

RESOLVED: Final = "resolved.json"


def version_problem(name: str) -> str:
    """Why no client can have this name, which has a version; empty if one can. Asks no registry."""
    wanted = versioned(name)
    assert wanted is not None
    if wanted.client not in VERSIONS:
        near = nearest_name(wanted.client, VERSIONS)
        hint = (
            f"did you mean {near}{SEPARATOR}{wanted.version}?" if near else f"of these they can: {', '.join(VERSIONS)}"
        )
        return f"versions of {wanted.client} cannot be chosen; {hint}"
    if not is_version(wanted.version):
        return f"expected a version like 2.4.0 after {SEPARATOR}, got {wanted.version!r}"
    return ""


def has_version(name: str) -> bool:
    """Whether the name is one of a client in a version, and a right one."""
    return versioned(name) is not None and not version_problem(name)


def installed(name: str, cache: Path) -> Built:
    """Installs it if it is not there. NoSuchVersion if the registry does not have it, BuildError for anything else."""
    wanted, installer = _row(name)
    place = _place(wanted, installer, cache)
    if place.is_dir():
        return installer.start(place)
    if (tool := missing_tool(installer)) is not None:
        raise BuildError(f"client {name} cannot be installed: {tool.program} is not on PATH; {tool.fix}")

    def fill(directory: Path) -> None:
        write_files(directory, installer.sources)
        resolved = installer.install(name, wanted.version, directory)
        document = {"client": wanted.client, "version": wanted.version, "resolved": dict(sorted(resolved.items()))}
        (directory / RESOLVED).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    return installer.start(made(place, fill))


def is_installed(name: str, cache: Path) -> bool:
    return _place(*_row(name), cache).is_dir()


def resolved_of(name: str, cache: Path) -> dict[str, str]:
    """What it was made of: versions by the names of the packages. Empty if it is not installed."""
    try:
        document = json.loads((_place(*_row(name), cache) / RESOLVED).read_text(encoding="utf-8"))
    except OSError:
        return {}
    return {str(package): str(version) for package, version in document["resolved"].items()}


def installed_versions(client: str, cache: Path) -> list[str]:
    """Those that are in the cache, made from the sources of today."""
    found = (path.name.removeprefix(f"{client}{SEPARATOR}") for path in (cache / "clients").glob(f"{client}==*"))
    versions = {name.rpartition("-")[0] for name in found}  # one may be there for programs of several days
    return in_order(version for version in versions if is_installed(f"{client}{SEPARATOR}{version}", cache))


def _row(name: str) -> tuple[Versioned, Installer]:
    if problem := version_problem(name):
        raise BuildError(f"client {name}: {problem}")
    wanted = versioned(name)
    assert wanted is not None
    return wanted, VERSIONS[wanted.client]


def _place(wanted: Versioned, installer: Installer, cache: Path) -> Path:
    return cache / "clients" / f"{wanted}-{digest_of(installer.sources)}"
