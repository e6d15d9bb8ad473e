"""`harness compare` from run directories alone: refusal, force, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.main import execute
from harness.errors import ExitCode
from harness.run.report.spark_choice import SparkChoice
from runlog.records.codec import to_json
from runlog.records.measurements import MEASUREMENTS_VERSION
from tests.reports.comparison_trials import made_run


def run_directory(root: Path, name: str, seed: int, *, change: float = 0.0, cores: int = 2, cells: int = 4) -> Path:
    directory = root / name
    (directory / "results").mkdir(parents=True)
    found = made_run(seed, cells=cells, repetitions=5, noise=0.004, change=change)
    document = {"schema_version": MEASUREMENTS_VERSION, "cells": [to_json(item) for item in found]}
    (directory / "results" / "measurements.json").write_text(json.dumps(document))
    (directory / "manifest.json").write_text(json.dumps({"host": {"cores": cores}, "versions": {"x": name}}))
    return directory


@pytest.mark.thorough
def test_the_exit_code_says_worse_same_and_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, like = run_directory(tmp_path, "base", 1), run_directory(tmp_path, "like", 2)
    slow = run_directory(tmp_path, "slow", 3, change=0.2)
    other_host = run_directory(tmp_path, "other", 4, cores=64)

    assert execute(["compare", str(base), str(like)]) == ExitCode.PASS
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == str(like / "results" / "compare-base.html")
    assert Path(out[-1]).is_file()
    assert "  differs: version of x: BASE base, NEW like" in out

    assert execute(["compare", str(base), str(slow)]) == ExitCode.FAIL
    assert "result: worse" in capsys.readouterr().out

    assert execute(["compare", str(base), str(other_host)]) == ExitCode.USAGE
    assert "host, cores: BASE 2, NEW 64" in capsys.readouterr().err
    assert execute(["compare", str(base), str(other_host), "--force"]) == ExitCode.PASS
    assert "unlike, compared by force: host, cores" in capsys.readouterr().out


def test_a_run_is_not_compared_with_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that BASE and NEW were measured one after the other, and advised more repetitions."""
    base = run_directory(tmp_path, "base", 1, cells=1)
    (tmp_path / "link").symlink_to(base)
    monkeypatch.chdir(tmp_path)
    for other in ("base", "./base/", "link"):
        assert execute(["compare", "base", other]) == ExitCode.USAGE
        assert "BASE and NEW are one run" in capsys.readouterr().err


@pytest.mark.parametrize("changed", ["cores", "nothing"])
def test_only_runs_between_which_nothing_differs_are_called_an_a_a_comparison(
    changed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Compared by force at half the rate, `nothing differs that is recorded` stood above what differs."""
    base = run_directory(tmp_path, "base", 1, cells=1)
    new = run_directory(tmp_path, "new", 2, cells=1, cores=64 if changed == "cores" else 2)
    manifest = new / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "versions": {"x": "base"}}))
    execute(["compare", str(base), str(new), "--force"])
    told = capsys.readouterr().out
    page = (new / "results" / "compare-base.html").read_text()
    assert ("A/A comparison" in told) == (changed == "nothing")
    assert ("A/A comparison" in page) == (changed == "nothing")


def renamed(directory: Path, *names: str, kind: str = "sweep") -> None:
    """The cells get other names, in turn."""
    measured = directory / "results" / "measurements.json"
    document = json.loads(measured.read_text())
    order = list(dict.fromkeys(cell["name"] for cell in document["cells"]))
    for cell in document["cells"]:
        cell.update(name=names[order.index(cell["name"])], kind=kind)
    measured.write_text(json.dumps(document))


def test_two_runs_of_one_configuration_each_are_compared_although_their_names_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two lines of `harness bench` name their cells after the settings, so they had no cell in common."""
    base, new = (run_directory(tmp_path, name, seed, cells=1) for name, seed in (("base", 1), ("new", 2)))
    renamed(base, "bench-acks-all-linger.ms-5")
    renamed(new, "bench-acks-all-linger.ms-20")
    assert execute(["compare", str(base), str(new)]) in (ExitCode.PASS, ExitCode.INCONCLUSIVE)
    told = capsys.readouterr().out
    assert "bench-acks-all-linger.ms-5 -> bench-acks-all-linger.ms-20" in told
    assert "only in" not in told


@pytest.mark.parametrize(
    ("of_base", "of_new", "kind"),
    [(("a",), ("b",), "chaos"), (("a", "b"), ("c",), "sweep"), (("a",), ("b", "c"), "sweep")],
)
def test_other_runs_without_a_common_cell_are_refused(
    of_base: tuple[str, ...], of_new: tuple[str, ...], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = run_directory(tmp_path, "base", 1, cells=len(of_base))
    new = run_directory(tmp_path, "new", 2, cells=len(of_new))
    renamed(base, *of_base, kind=kind)
    renamed(new, *of_new, kind=kind)
    assert execute(["compare", str(base), str(new)]) == ExitCode.USAGE
    assert "have no cell in common" in capsys.readouterr().err


def test_a_run_without_a_finished_cell_is_told_before_anything_is_analysed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It spent a minute in Spark, and then said that the runs measured different things."""
    base, new = run_directory(tmp_path, "base", 1, cells=1), tmp_path / "new"
    monkeypatch.setattr("harness.cli.results.compare.make_report", lambda *_, **__: pytest.fail("was analysed"))
    (new / "cells" / "sweep-1").mkdir(parents=True)
    (new / "cells" / "sweep-1" / "cell.json").write_text(json.dumps({"outcome": {"status": "interrupted"}}))
    (new / "manifest.json").write_text(json.dumps({"status": "interrupted", "cells": ["sweep-1", "sweep-2"]}))
    assert execute(["compare", str(base), str(new)]) == ExitCode.USAGE
    said = " ".join(capsys.readouterr().err.split())
    assert f"{new}: none of its 2 cells was finished, so there is nothing to compare" in said


@pytest.mark.thorough
def test_settings_of_spark_reach_the_analysis_that_a_comparison_needs_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, new = run_directory(tmp_path, "base", 1, cells=1), run_directory(tmp_path, "new", 2, cells=1)
    measured = new / "results" / "measurements.json"
    document, asked = measured.read_text(), []
    measured.unlink()

    def analyse(directory: Path, **options: object) -> None:
        asked.append((directory, options["spark"]))
        measured.write_text(document)

    monkeypatch.setattr("harness.cli.results.compare.make_report", analyse)
    command = ["compare", str(base), str(new), "--spark-master", "sc://10.0.0.7", "--spark-conf", "spark.a=b"]
    assert execute(command) in (ExitCode.PASS, ExitCode.INCONCLUSIVE)
    assert asked == [(new, SparkChoice(master="sc://10.0.0.7", conf=("spark.a=b",)))]


def test_what_is_no_run_directory_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = run_directory(tmp_path, "base", 1, cells=1)
    assert execute(["compare", str(base), str(tmp_path)]) == ExitCode.USAGE
    assert f"{tmp_path} is no run directory" in capsys.readouterr().err
    assert execute(["compare", str(base), str(base), "--relevant", "0"]) == ExitCode.USAGE
