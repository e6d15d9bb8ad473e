"""`harness bench` asks what its line says, and `harness chaos` alone asks back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.cli.load.bench import Question, bench_suite
from harness.cli.main import execute
from harness.errors import ExitCode


def _question(rate: str, *settings: str) -> Question:
    return Question(
        rate=rate, size_bytes=1024, seconds=5, repetitions=3, forks=3, producers=1, partitions=3, client="reference",
        settings=settings,
    )  # fmt: skip


def test_a_rate_is_one_configuration_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["bench", "--rate", "5000", "--size", "1024", "linger.ms=5", "acks=all", "--dry-run"]
    assert execute(line) == ExitCode.PASS
    out = capsys.readouterr().out
    assert out.count("5000/s x 1024 B, 3000+10000 ms") == 3
    suite = bench_suite(_question("5000", "linger.ms=5", "acks=1"))
    assert suite.sweep is not None
    assert suite.sweep.baseline == {"acks": "1", "linger.ms": "5"}


def test_max_is_a_search(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["bench", "--rate", "max", "compression.type=lz4", "--dry-run"]) == ExitCode.PASS
    assert "then a search between 500 and 400000 records/s" in capsys.readouterr().out
    search = bench_suite(_question("max", "compression.type=lz4")).search
    assert search is not None
    assert search.properties == {"acks": "all", "compression.type": "lz4"}


@pytest.mark.parametrize("limit", ["p99_ms <= 5", "p99_ms < 5"])
def test_a_search_keeps_the_p99_that_was_asked_for(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It searched with 50 ms whatever stood there, and then failed at the rate that it had found."""
    assert execute(["bench", "--rate", "max", "--limit", limit, "--limit", "lost == 0", "--dry-run"]) == ExitCode.PASS
    out = " ".join(capsys.readouterr().out.split())
    assert "for the highest rate that keeps a p99 of at most 5 ms" in out
    suite = bench_suite(replace(_question("max"), limits=(limit, "lost == 0")))
    assert suite.search is not None
    assert suite.search.contract.p99_ms == 5
    assert [entry.limit for entry in suite.limits] == ["lost == 0"], "a cell above the rate that is kept may break it"


def test_the_lowest_p99_of_several_counts_in_a_search() -> None:
    suite = bench_suite(replace(_question("max"), limits=("p99_ms <= 20", "p99_ms <= 10")))
    assert suite.search is not None
    assert suite.search.contract.p99_ms == 10


@pytest.mark.parametrize("limit", ["p99_ms >= 5", "p99_ms <= -5", "p99_ms <= fast"])
def test_a_search_takes_no_p99_that_nobody_can_keep(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["bench", "--rate", "max", "--limit", limit, "--dry-run"]) == ExitCode.USAGE
    assert limit in capsys.readouterr().err


def test_at_a_rate_a_limit_of_the_p99_is_one_of_its_cells() -> None:
    suite = bench_suite(replace(_question("5000"), limits=("p99_ms <= 5",)))
    assert [entry.limit for entry in suite.limits] == ["p99_ms <= 5"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["linger=5"], "harness bench: client reference cannot set linger: "),
        (["acks=2"], "expected one of all, -1, 0, 1, got '2'"),
        (["linger.ms"], "bench linger.ms: expected NAME=VALUE"),
        (["--rate", "fast"], "--rate fast: expected records a second, or max"),
        (["--rate", "0"], "--rate 0: expected more than 0"),
    ],
)
def test_a_wrong_word_is_told(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["bench", *words, "--dry-run"]) == ExitCode.USAGE
    assert told in capsys.readouterr().err


@pytest.mark.thorough
def test_all_scenarios_are_not_begun_without_a_yes(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["chaos", "--no-report"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "harness chaos --yes" in said
    assert " min." in said


@pytest.mark.parametrize("command", ["run", "chaos", "bench"])
def test_the_command_that_carries_out_one_cell_again_has_options_that_exist(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute([command, "--help"]) == ExitCode.PASS
    told = capsys.readouterr().out
    assert "--seed" in told
    assert "--cell" in told


def test_a_cell_is_named_after_its_settings_and_names_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["bench", "linger.ms=5", "--repetitions", "2", "--dry-run"]) == ExitCode.PASS
    out = capsys.readouterr().out
    assert "bench-acks-all-linger.ms-5-r2" in out
    assert "baseline" not in out
    suite = bench_suite(_question("5000", "linger.ms=5", "sasl.password=hunter2"))
    assert suite.sweep is not None
    assert suite.sweep.baseline_name == "acks=all linger.ms=5"
