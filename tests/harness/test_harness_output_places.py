"""A place for results that cannot be written is told before the work, by each command that has such an option."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from harness.cli.explore import explore as explore_command
from harness.cli.explore import own_program as program_command
from harness.cli.explore import tape as tape_command
from harness.cli.main import execute
from harness.errors import ExitCode, UsageError
from harness.explore.generators.programs import plain
from harness.explore.trial.model import Trial, to_document
from harness.output_places import check_output_directory, check_output_file
from tests.reports.synthetic_run import SyntheticCell, write_run


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty directory with one file and one directory in it, where no cluster is started."""

    def started(*_: object, **__: object) -> None:
        raise AssertionError("a cluster was started")

    for module in (explore_command, program_command, tape_command):
        monkeypatch.setattr(module, "started_bench", started)
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("directory").mkdir()
    trial = Trial(program=plain(("produce",), ("acks",))[0])
    Path("trial.json").write_text(json.dumps(to_document(trial)))


EXPLORE = ["explore", "--", sys.executable, "-c", "print('hello')"]
PROGRAM = ["explore", "--program", f"{sys.executable} -V"]
TAPE = ["--trial", "trial.json", "--", sys.executable, "-V"]


@pytest.mark.parametrize(
    "words",
    [
        *[[*EXPLORE[:1], "--junit", place, *EXPLORE[1:]] for place in ("directory", "file/x")],
        *[[*PROGRAM, "--junit", place] for place in ("directory", "file/x")],
        [*EXPLORE[:1], "--corpus", "file", *EXPLORE[1:]],
        [*EXPLORE[:1], "--corpus", "file/x", *EXPLORE[1:]],
        ["tape", "record", "directory", *TAPE],
        ["tape", "record", "file/x", *TAPE],
    ],
)  # fmt: skip
def test_a_search_and_a_tape_are_not_begun(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(words) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "is a directory, expected a file" in said or "is a file, expected a directory" in said or "is no dir" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("directory", "directory: it is a directory, expected a file"),
        ("file/h", "file is a file, expected a directory"),
        ("gone/h", "gone/h: there is no directory gone"),
    ],
)
def test_a_history_is_not_read(place: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", [SyntheticCell(cell_id="calm").build()])
    for words in (["report", str(run), "--to-edn", place], ["report", "--from-edn", "no-such.edn", "--json", place]):
        assert execute(words) == ExitCode.USAGE
        said = capsys.readouterr().err
        assert f"{words[-2]} {place}" in said
        assert told in said


def test_what_can_be_made_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    check_output_file("--junit", Path("a/b/c.xml"))
    check_output_file("--junit", Path("file"))
    check_output_file("--junit", None)
    check_output_directory("--artifacts", Path("a/b"))
    check_output_directory("--artifacts", Path("directory"))
    check_output_directory("--artifacts", None)
    monkeypatch.setattr("os.access", lambda *_: False)  # to root each directory can be written
    with pytest.raises(UsageError, match=r"--junit directory/x: nothing can be written into .*/directory"):
        check_output_file("--junit", Path("directory/x"))


@pytest.mark.parametrize("option", ["--junit", "--corpus", "--known", "--only"])
def test_an_option_of_a_search_is_not_left_out_in_silence_with_again(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("known.yaml").write_text("- {signature: x, reason: y}\n")
    value = {"--known": "known.yaml", "--only": "producer"}.get(option, "new")
    assert execute([*EXPLORE[:1], "--again", "trial.json", option, value, *EXPLORE[1:]]) == ExitCode.USAGE
    assert f"--again tries one trial three times and searches nothing: leave {option} out" in capsys.readouterr().err
