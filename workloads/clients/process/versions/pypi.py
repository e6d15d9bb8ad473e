"""Python clients from PyPI, by pip, each in a virtual environment of its own.

Wheels only: a source distribution may build for minutes, against libraries of this host, and is then not what others
run. The program is a file of this package, so a change of it installs nothing anew.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workloads.clients.process import shipped
from workloads.clients.process.build import Built
from workloads.clients.process.making import StepFailed, run_step
from workloads.clients.process.versions.installers import NoSuchVersion, Tool

_VENV: Final = "venv"
_CONSTRAINTS: Final = "constraints.txt"
_PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
# pip tells the versions that it could have taken, also if there is none.
_NOT_THERE: Final = re.compile(r"No matching distribution found for (\S+?)(?:==\S+)?(?:\s|$)")
_VERSIONS: Final = re.compile(r"\(from versions: ([^)]*)\)")
# Packages that this process sees are none of the client's.
_OWN: Final = {"PYTHONPATH": None, "PYTHONHOME": None, "VIRTUAL_ENV": None, "PIP_TARGET": None, "PIP_USER": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class PyPi:
    """`beside`: packages that the library needs for its codecs and does not ask for. `constraints`, as pip has them:
    for packages that some version of it asks for, and not narrowly enough. `tells`: a Python expression for what the
    wheel carries beside the library, by the name in `carries`."""

    program: str  # its file, in the directory of shipped programs
    package: str
    beside: Sequence[str] = ()
    constraints: Sequence[str] = ()
    carries: str = ""
    tells: str = ""
    registry: str = "PyPI"
    tools: Sequence[Tool] = ()  # this Python has pip and venv

    @property
    def sources(self) -> Mapping[str, str]:
        made_of = "\n".join([_PYTHON, self.package, *self.beside, ""])
        return {"made-of": made_of, **({_CONSTRAINTS: "\n".join([*self.constraints, ""])} if self.constraints else {})}

    def install(self, client: str, version: str, directory: Path) -> Mapping[str, str]:
        run_step(client, [sys.executable, "-m", "venv", _VENV], directory, environment=_OWN)
        python = str(directory / _VENV / "bin" / "python")
        pip = [python, "-m", "pip", "--no-input", "--disable-pip-version-check"]
        wanted = [f"{self.package}=={version}", *self.beside]
        if self.constraints:
            wanted += ["--constraint", _CONSTRAINTS]
        try:
            run_step(client, [*pip, "install", "--quiet", "--only-binary=:all:", *wanted], directory, environment=_OWN)
        except StepFailed as error:
            if (missing := _NOT_THERE.search(error.output)) and missing[1] == self.package:
                found = _VERSIONS.search(error.output)
                known = [] if found is None or found[1] == "none" else found[1].split(", ")
                why = f"{self.registry} has no wheel of {self.package} {version} for Python {_PYTHON} on this platform"
                raise NoSuchVersion(client, why, version, known) from error
            raise
        frozen = run_step(
            client,
            [*pip, "list", "--format=freeze", "--exclude=pip", "--exclude=setuptools"],
            directory,
            environment=_OWN,
        )
        resolved = dict(line.split("==", 1) for line in frozen.splitlines() if "==" in line)
        if self.tells:
            said = run_step(client, [python, "-c", f"{self.tells}"], directory, environment=_OWN)
            resolved[self.carries] = said.strip()
        return {**resolved, "python": sys.version.split()[0]}

    def start(self, directory: Path) -> Built:
        python = directory / _VENV / "bin" / "python"
        # -I would be stricter, and would also hide the directory of the program.
        return Built(
            command=(str(python), str(Path(shipped.__file__).parent / self.program)),
            environment={"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
        )
