"""Carries out the steps of a CI file as a service does: each `run:` line in a shell, in order, and the file's `if:`.

A step of somebody else's action (checkout, set up Python or Java, upload) is left out: the caller has done that.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.patience import communicate

_ALWAYS = "!cancelled()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    command: str
    runs_always: bool = False  # also after a step that failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    command: str
    code: int
    output: str


def github_steps(path: Path, variables: Mapping[str, str]) -> tuple[dict[str, str], list[Step]]:
    """Environment and steps of the only job; `variables` are those of the repository's settings."""
    document = _yaml(path)
    (job,) = document["jobs"].values()
    environment = {name: _expanded(str(value), variables) for name, value in document.get("env", {}).items()}
    return environment, [
        Step(command=step["run"], runs_always=_ALWAYS in str(step.get("if", "")))
        for step in job["steps"]
        if "run" in step
    ]


def gitlab_steps(path: Path, variables: Mapping[str, str]) -> tuple[dict[str, str], list[Step]]:
    """Variables of the project come before those of the file."""
    document = _yaml(path)
    (job,) = (part for name, part in document.items() if name != "variables")
    environment = {name: str(value) for name, value in document.get("variables", {}).items()} | dict(variables)
    return environment, [Step(command=line) for line in (*job.get("before_script", ()), *job["script"])]


def carry_out(steps: list[Step], directory: Path, environment: Mapping[str, str]) -> list[Done]:
    """In order. After a step that failed only those that always run."""
    done: list[Done] = []
    for step in steps:
        if any(one.code for one in done) and not step.runs_always:
            continue
        process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step.command],
            cwd=directory, env={**os.environ, **environment}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            output, _ = communicate(process, f"the end of the step {step.command}")
        finally:
            process.kill()
        done.append(Done(command=step.command, code=process.returncode, output=output))
    return done


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """`${{ vars.NAME }}`, which is empty where the repository has no such variable."""
    return re.sub(r"\$\{\{\s*vars\.(\w+)\s*\}\}", lambda found: variables.get(found[1], ""), text)


def _yaml(path: Path) -> Any:  # whatever the file has
    return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
