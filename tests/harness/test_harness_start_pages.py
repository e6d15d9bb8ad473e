"""What a newcomer copies out of docs/start and the worked examples of docs/guide: it is valid, and it is what runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^```\w+ title=(\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def examples(page: str) -> dict[str, str]:
    """Files that the page shows, by name."""
    return dict(_BLOCK.findall((DOCS / page).read_text()))


def harness(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "name"), [("start/first-suite.md", "orders.yaml"), ("start/first-chaos-test.md", "my-producer.yaml")]
)
@pytest.mark.thorough
def test_the_first_files_of_a_newcomer_are_valid(page: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(examples(page)[name])
    done = harness("validate", name, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_first_suite_has_as_many_cells_as_its_page_says(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").write_text(examples("start/first-suite.md")["orders.yaml"])
    done = harness("run", "orders.yaml", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(set(re.findall(r"sweep-\S+", done.stdout))) == 16, done.stdout
    assert "it has 16 cells" in (DOCS / "start" / "first-suite.md").read_text()


@pytest.mark.parametrize(
    ("page", "file"),
    [
        ("guide/write-a-fault.md", "chaos/faults/byte_limit.py"),
        ("guide/write-a-scenario.md", "chaos/scenarios/byte-limit.yaml"),
    ],
)
def test_a_worked_example_is_the_file_that_runs(page: str, file: str) -> None:
    assert examples(page)[Path(file).name] == (ROOT / file).read_text()


@pytest.mark.slow
def test_the_commands_of_the_start_pages_have_options_that_exist() -> None:
    for page in sorted((DOCS / "start").glob("*.md")):
        for line in re.findall(r"^(harness [^#\n]+)", page.read_text(), re.MULTILINE):
            command, options = line.split()[1], re.findall(r"(?<!\S)--[a-z-]+", line)
            if options:
                told = harness(command, "--help", cwd=ROOT).stdout
                assert [option for option in options if option not in told] == [], f"{page.name}: {line}"


@pytest.mark.long
@pytest.mark.slow
def test_the_first_scenario_of_a_newcomer_passes(tmp_path: Path) -> None:
    (tmp_path / "my-producer.yaml").write_text(examples("start/first-chaos-test.md")["my-producer.yaml"])
    done = harness("chaos", "my-producer.yaml", "--no-report", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[1/1]" in done.stderr
