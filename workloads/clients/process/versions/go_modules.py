"""Go clients, built from modules. The version is asked for by name, and what it asks for itself is taken as it says:
the file go.mod of our sources, which is for the version that is built in, is not used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workloads.clients.process.build import Built, start_go
from workloads.clients.process.making import StepFailed, run_step
from workloads.clients.process.shipped import sources
from workloads.clients.process.versions.installers import NoSuchVersion, Tool
from workloads.clients.process.versions.nearest import in_order

GO: Final = Tool("go", "install Go 1.26 or newer (go.dev)")
# Another toolchain would be fetched where a module asks for one: then it would not be the Go that `doctor` saw.
_OWN: Final = {"GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOWORK": "off"}
_OF_PACKAGE: Final = "{{with .Module}}{{.Path}} {{.Version}}{{end}}"
_OF_MODULES: Final = ("go.mod", "go.sum")
# The proxy answers 404 or 410 for what it does not know, and 403 for what it does not give.
_NOT_THERE: Final = ("unknown revision", "no matching versions", "not found", "invalid version", "not available")


@dataclass(frozen=True, slots=True, kw_only=True)
class GoModule:
    """`oldest`: versions before it lack what our program calls."""

    language: str
    module: str
    oldest: str
    registry: str = "the Go module proxy"
    tools: Sequence[Tool] = (GO,)

    @property
    def sources(self) -> Mapping[str, str]:
        return {name: text for name, text in sources(self.language).items() if name not in _OF_MODULES}

    def install(self, client: str, version: str, directory: Path) -> Mapping[str, str]:
        if in_order((version, self.oldest))[0] != self.oldest:
            why = f"{self.module} v{version} lacks what our program calls, which is there from v{self.oldest} on"
            raise NoSuchVersion(client, why, version, (self.oldest,))
        run_step(client, ["go", "mod", "init", "client"], directory, environment=_OWN)
        try:
            run_step(client, ["go", "get", f"{self.module}@v{version}"], directory, environment=_OWN)
        except StepFailed as error:
            if any(words in error.output for words in _NOT_THERE):
                why = f"{self.registry} has no {self.module} v{version}"
                raise NoSuchVersion(client, why, version, self._known(client, directory)) from error
            raise
        run_step(client, ["go", "mod", "tidy"], directory, environment=_OWN)
        run_step(client, ["go", "build", "-o", "client", "."], directory, environment=_OWN)
        listed = run_step(client, ["go", "list", "-deps", "-f", _OF_PACKAGE, "."], directory, environment=_OWN)
        pairs = (line.split() for line in listed.splitlines())
        go = run_step(client, ["go", "env", "GOVERSION"], directory, environment=_OWN).strip()
        return {**{pair[0]: pair[1].removeprefix("v") for pair in pairs if len(pair) >= 2}, "go": go.removeprefix("go")}

    def start(self, directory: Path) -> Built:
        return start_go(directory)

    def _known(self, client: str, directory: Path) -> list[str]:
        """Empty if the proxy does not tell."""
        try:
            listed = run_step(client, ["go", "list", "-m", "-versions", self.module], directory, environment=_OWN)
        except StepFailed:
            return []
        return [each.removeprefix("v") for each in listed.split()[1:]]
