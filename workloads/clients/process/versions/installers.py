"""What an installer is: it knows a registry, and makes a client in one version. The registry's ordinary client does the
work, as it is set up on this host: addresses and credentials are its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from workloads.clients.process.build import Built
from workloads.clients.process.making import BuildError
from workloads.clients.process.versions.nearest import nearest_versions


class Tool(NamedTuple):
    program: str  # what has to be on PATH
    fix: str  # how to get it


class Installer(Protocol):
    @property
    def registry(self) -> str:
        """For messages: `PyPI`."""

    @property
    def tools(self) -> Sequence[Tool]:
        """Empty if nothing is needed that this program does not bring."""

    @property
    def sources(self) -> Mapping[str, str]:
        """The program that speaks the client protocol: its files by name, and whatever else changes what is made."""

    def install(self, client: str, version: str, directory: Path) -> Mapping[str, str]:
        """Make it in `directory`, where its sources are already; the directory gets another name afterwards.

        Returns what was resolved: versions by the names of the packages. `client` is for messages: `confluent==2.4.0`.
        NoSuchVersion, or BuildError for anything else that went wrong."""

    def start(self, directory: Path) -> Built:
        """How what was made is started."""


class NoSuchVersion(BuildError):
    """The registry does not have it. Asking again gives the same answer."""

    def __init__(self, client: str, why: str, version: str, others: Iterable[str]) -> None:
        near = nearest_versions(version, others)
        hint = f"; nearest: {', '.join(near)}" if near else ""
        super().__init__(f"client {client}: {why}{hint}")


def missing_tool(installer: Installer) -> Tool | None:
    """The first one that is not on PATH."""
    return next((tool for tool in installer.tools if shutil.which(tool.program) is None), None)
