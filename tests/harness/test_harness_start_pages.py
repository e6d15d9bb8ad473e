"""What a newcomer copies out of docs/start and the worked examples of docs/guide: it is valid, and it is what runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.main import execute
from harness.errors import ExitCode
from tests.patience import run_command

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_BLOCK = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)


def examples(page: str) -> dict[str, str]:
    """Files that the page shows, by name."""
    return dict(_BLOCK.findall((DOCS / page).read_text()))


@pytest.fixture
def in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def harness(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness", *arguments]
    return run_command(command, cwd=cwd)


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("start/first-suite.md", "orders.yaml"),
        ("start/first-chaos-test.md", "my-producer.yaml"),
        ("guide/limits.md", "orders-limits.yaml"),
    ],
)
@pytest.mark.thorough
def test_the_first_files_of_a_newcomer_are_valid(page: str, name: str, in_a_directory: Path) -> None:
    (in_a_directory / name).write_text(examples(page)[name])
    assert execute(["validate", name]) == ExitCode.PASS


@pytest.mark.thorough
def test_the_first_suite_has_as_many_cells_as_its_page_says(
    in_a_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (in_a_directory / "orders.yaml").write_text(examples("start/first-suite.md")["orders.yaml"])
    assert execute(["run", "orders.yaml", "--dry-run"]) == ExitCode.PASS
    out = capsys.readouterr().out
    assert len(set(re.findall(r"sweep-\S+", out))) == 16, out
    assert "it has 16 cells" in (DOCS / "start" / "first-suite.md").read_text()


@pytest.mark.parametrize(
    ("page", "file"),
    [
        ("start/first-suite.md", "harness/templates/orders.yaml"),
        ("start/first-chaos-test.md", "harness/templates/my-producer.yaml"),
        ("guide/testing-your-client.md", "harness/templates/test_orders.py.txt"),
        ("guide/write-a-fault.md", "chaos/faults/byte_limit.py"),
        ("guide/write-a-scenario.md", "chaos/scenarios/byte-limit.yaml"),
    ],
)
def test_a_worked_example_is_the_file_that_runs(page: str, file: str) -> None:
    assert examples(page)[Path(file).name.removesuffix(".txt")] == (ROOT / file).read_text()


GROUPS = ("client", "cluster", "tape")  # their commands are two words


@pytest.mark.thorough
def test_the_commands_of_the_start_pages_have_options_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for page in sorted((DOCS / "start").glob("*.md")):
        for line in re.findall(r"^(harness [^#\n]+)", page.read_text(), re.MULTILINE):
            words, options = line.split()[1:], re.findall(r"(?<!\S)--[a-z-]+", line)
            command = words[:2] if words[0] in GROUPS else words[:1]
            if options:
                assert execute([*command, "--help"]) == ExitCode.PASS
                told = capsys.readouterr().out
                assert [option for option in options if option not in told] == [], f"{page.name}: {line}"


@pytest.mark.long
@pytest.mark.slow
def test_the_first_scenario_of_a_newcomer_passes(tmp_path: Path) -> None:
    (tmp_path / "my-producer.yaml").write_text(examples("start/first-chaos-test.md")["my-producer.yaml"])
    done = harness("chaos", "my-producer.yaml", "--no-report", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[1/1]" in done.stderr
