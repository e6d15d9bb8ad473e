"""The examples for CI as they stand, copied into an empty repository: every line that they run, in order.

The package comes from a wheel in the repository, as the page says. What CI downloads (Python, Java, the libraries) is
that of this host, so that no index is asked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.harness.ci_steps import Step, carry_out, github_steps, gitlab_steps
from tests.harness.test_harness_wheel_install import REPOSITORY, tracked_files
from tests.patience import run_command

EXAMPLES = REPOSITORY / "examples" / "ci"
PASS_OR_INCONCLUSIVE = (0, 4)  # a busy host leaves a fault no time to act
EMPTY_SUMMARY = 10


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as docs/guide/ci.md says, from a copy, so that the checkout stays as it is."""
    root = tmp_path_factory.mktemp("wheel")
    for path in tracked_files():
        (root / "sources" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / path, root / "sources" / path)
    run_command(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", "vendor",
         "./sources"],
        cwd=root, check=True,
    )  # fmt: skip
    (built,) = (root / "vendor").glob("kafka_harness-*.whl")
    return built


def repository(directory: Path, wheel: Path) -> dict[str, str]:
    """An empty repository with the wheel in it; the environment of a job with Python, pip and Java."""
    work, home = directory / "work", directory / "job"
    (work / "vendor").mkdir(parents=True)
    shutil.copy(wheel, work / "vendor")
    subprocess.run(["git", "init", "-q"], cwd=work, check=True, timeout=30)
    venv.create(home, with_pip=False)
    site = next((home / "lib").glob("python*/site-packages"))
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (site / "libraries.pth").write_text("\n".join(libraries))  # their own .pth files are not read: no editable install
    for name, text in (("pip", f'exec {home}/bin/python -m pip "$@"'), ("apt-get", "exit 0")):
        (home / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (home / "bin" / name).chmod(0o755)
    return {
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "HOME": str(directory / "home"),
        "XDG_STATE_HOME": str(directory / "state"),
        "XDG_CACHE_HOME": str(directory / "cache"),
        "HARNESS_CACHE_DIR": "",
        "PYTHONPATH": "",
        "CI": "true",
        # Only the wheel is installed; the libraries are there.
        "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_IGNORE_INSTALLED": "1",
    }  # fmt: skip


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_an_example_runs_as_it_stands_in_an_empty_repository(service: str, wheel: Path, tmp_path: Path) -> None:
    job = repository(tmp_path, wheel)
    work = tmp_path / "work"
    variables = {"KAFKA_HARNESS": f"vendor/{wheel.name}"}
    if service == "github":
        workflow = work / ".github" / "workflows" / "kafka-chaos.yml"
        workflow.parent.mkdir(parents=True)
        shutil.copy(EXAMPLES / "github.yml", workflow)
        environment, steps = github_steps(workflow, variables)
        (tmp_path / "step-summary.md").touch()
        environment["GITHUB_STEP_SUMMARY"] = str(tmp_path / "step-summary.md")
    else:
        shutil.copy(EXAMPLES / "gitlab.yml", work / ".gitlab-ci.yml")
        environment, steps = gitlab_steps(work / ".gitlab-ci.yml", variables)
    done = carry_out(steps, work, {**job, **environment})
    by_word = {word: next(one for one in done if word in one.command) for word in ("pip install", "harness chaos")}
    assert by_word["pip install"].code == 0, by_word["pip install"].output
    chaos = by_word["harness chaos"]
    assert chaos.code in PASS_OR_INCONCLUSIVE, chaos.output[-4000:]
    suites = ElementTree.parse(work / "artifacts" / "junit.xml").getroot()
    assert {suite.get("id") for suite in suites if suite.get("id")} == {
        f"chaos-{cell}"
        for cell in (
            "leader-loss-acks-1", "leader-loss-acks-all", "response-lost-idempotence-off",
            "response-lost-idempotence-on", "request-refused-in-flight-5", "request-refused-in-flight-5-idempotent",
        )
    }  # fmt: skip
    assert (work / "artifacts" / "summary.md").stat().st_size > EMPTY_SUMMARY
    if service == "github":
        assert (tmp_path / "step-summary.md").read_text() == (work / "artifacts" / "summary.md").read_text()


@pytest.mark.slow
def test_a_failed_step_ends_a_job_but_for_what_always_runs(tmp_path: Path) -> None:
    steps = [Step(command="exit 1"), Step(command="echo no"), Step(command="echo yes", runs_always=True)]
    assert [(one.code, one.output) for one in carry_out(steps, tmp_path, {})] == [(1, ""), (0, "yes\n")]


@pytest.mark.slow
@pytest.mark.parametrize("read", [github_steps, gitlab_steps])
def test_without_the_variable_nothing_is_asked_of_an_index(read: Callable[..., Any], tmp_path: Path) -> None:
    """Whoever takes the name of this package on an index would run code with the rights of the pipeline."""
    service = read.__name__.partition("_")[0]
    environment, steps = read(EXAMPLES / f"{service}.yml", {})
    (install,) = [step for step in steps if "pip install" in step.command]
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "pip").write_text('#!/bin/sh\necho "pip was asked for: $*"\n')
    (tools / "pip").chmod(0o755)
    (done,) = carry_out([install], tmp_path, {**environment, "PATH": f"{tools}:{os.environ['PATH']}"})
    assert done.code != 0
    assert "KAFKA_HARNESS: set it to a wheel or a repository" in done.output
    assert "pip was asked for" not in done.output


def test_the_commands_that_build_the_wheel_stand_on_the_page() -> None:
    page = (REPOSITORY / "docs" / "guide" / "ci.md").read_text()
    assert "pip wheel --no-deps -w vendor " in page
    assert "KAFKA_HARNESS" in page
