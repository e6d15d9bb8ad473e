"""Every command that may start Spark takes the same two options for it, and passes on what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from harness.cli.commands import app
from harness.cli.main import execute
from harness.errors import ExitCode, UsageError
from harness.run.report.spark_choice import THIS_HOST, SparkChoice

OPTIONS = {"--spark-master", "--spark-conf"}


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Of click's, of whichever click typer has."""
    if hasattr(group, "commands"):
        for name, command in group.commands.items():
            yield from commands(command, (*path, name))
    else:
        yield path, group


def options_of(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def test_a_command_with_one_option_of_spark_has_the_other_too() -> None:
    found = {path: options_of(command) & OPTIONS for path, command in commands(typer.main.get_command(app))}
    asking = {path[-1] for path, options in found.items() if options}
    assert asking == {"run", "bench", "chaos", "confirm", "report", "compare"}
    assert all(options in (set(), OPTIONS) for options in found.values()), found


@pytest.mark.parametrize(
    "command",
    [
        ("run", "demo", "--dry-run"), ("bench", "--dry-run"), ("chaos", "--dry-run"), ("confirm", "nowhere"),
        ("report", "nowhere"), ("compare", "nowhere", "nowhere"),
    ],
)  # fmt: skip
def test_what_is_no_setting_is_told_before_anything_else(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.cli.results.commands.require_some_java", lambda *_, **__: None)
    monkeypatch.setattr("harness.cli.load.commands.require_some_java", lambda *_, **__: None)
    assert execute([*command, "--spark-conf", "nonsense"]) == ExitCode.USAGE
    assert "--spark-conf 'nonsense': expected spark.NAME=VALUE" in " ".join(capsys.readouterr().err.split())


def test_the_master_is_on_no_command_line() -> None:
    choice = SparkChoice.of_options("sc://10.0.0.7/;token=secret", ["spark.a=b", "spark.c=d=e"])
    assert choice.arguments() == ["--spark-conf=spark.a=b", "--spark-conf=spark.c=d=e", "--master", "-"]
    assert THIS_HOST.arguments() == []
    assert SparkChoice.of_options(None, None) == THIS_HOST
    with pytest.raises(UsageError, match="expected spark"):
        SparkChoice.of_options(None, ["a=b"])
