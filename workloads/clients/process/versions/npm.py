"""JavaScript clients from npm's registry. What packages run at their installation is left out, as everywhere here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workloads.clients.process.build import Built, start_node
from workloads.clients.process.making import StepFailed, run_step
from workloads.clients.process.shipped import sources
from workloads.clients.process.versions.installers import NoSuchVersion, Tool

NPM: Final = Tool("npm", "install Node.js 18 or newer with npm (apt install nodejs npm)")
_LOCK: Final = "package-lock.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Npm:
    language: str
    package: str
    registry: str = "npm's registry"
    tools: Sequence[Tool] = (NPM,)

    @property
    def sources(self) -> Mapping[str, str]:
        return {name: text for name, text in sources(self.language).items() if name != _LOCK}

    def install(self, client: str, version: str, directory: Path) -> Mapping[str, str]:
        manifest = directory / "package.json"
        document = json.loads(manifest.read_text(encoding="utf-8"))
        document["dependencies"][self.package] = version
        manifest.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        try:
            run_step(
                client, ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], directory
            )
        except StepFailed as error:
            known = self._known(client, directory)
            if version not in known:
                why = f"{self.registry} has no {self.package} {version}"
                raise NoSuchVersion(client, why, version, known) from error
            raise
        lock = json.loads((directory / _LOCK).read_text(encoding="utf-8"))
        return {
            path.rpartition("node_modules/")[2]: entry["version"] for path, entry in lock["packages"].items() if path
        }

    def start(self, directory: Path) -> Built:
        return start_node(directory)

    def _known(self, client: str, directory: Path) -> list[str]:
        said = json.loads(run_step(client, ["npm", "view", self.package, "versions", "--json"], directory))
        return [said] if isinstance(said, str) else list(said)
