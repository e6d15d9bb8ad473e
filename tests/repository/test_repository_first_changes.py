"""The pages of first changes say all: a program that follows them word by word, in a copy of the checkout, gets there.

A block with a path as its title is a file. A `diff` with a path changes lines: those that begin with a blank or a minus
must stand there once, one after the other. Commands stand in blocks titled `in the checkout`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.patience import run_command

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("first-fault.md", "first-toxic.md", "new-figure.md", pytest.param("first-client.md", marks=pytest.mark.long))
COPIED = ("broker", "chaos", "docs", "harness", "reports", "runlog", "tests", "workloads")
BLOCK = re.compile(r'^```(\w+) title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
COMMANDS = "in the checkout"

pytestmark = pytest.mark.slow


def changed(text: str, block: str, where: str) -> str:
    """The text of a file after a block of `diff`."""
    lines = block.splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line[0] != other) for other in "+-")
    assert text.count(old) == 1, f"{where}: expected once, found {text.count(old)} times:\n{old}"
    return text.replace(old, new)


def follow(page: str, checkout: Path) -> list[str]:
    """Make the page's changes. Returns its commands."""
    commands: list[str] = []
    for language, title, block in BLOCK.findall((ROOT / "docs/internals" / page).read_text(encoding="utf-8")):
        file = checkout / title
        if title == COMMANDS:
            commands += block.splitlines()
        elif language == "diff":
            file.write_text(changed(file.read_text(encoding="utf-8"), block, f"{page}: {title}"), encoding="utf-8")
        else:
            assert not file.exists(), f"{page}: {title} is there already"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block, encoding="utf-8")
    assert commands, f"{page} has no commands"
    return commands


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    directory = tmp_path / "checkout"
    for name in COPIED:  # with the bytecode, which counts as long as a source has its time
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("node_modules"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copyfile(ROOT / name, directory / name)
    return directory


@pytest.mark.parametrize("page", PAGES)
def test_who_follows_the_page_gets_there(page: str, checkout: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(checkout), "PYTEST_ADDOPTS": "-p no:cacheprovider"}
    for command in follow(page, checkout):
        done = run_command(["bash", "-c", command], cwd=checkout, env=environment)
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
