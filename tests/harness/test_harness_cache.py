"""One cache: that of the checkout, whether `make` or the user starts the command; a wheel has the user's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.cli.hosts import doctor
from harness.clusters.kafka import jars
from harness.clusters.kafka.jars import cache_directory
from harness.errors import EnvironmentFault
from tests.patience import run_command

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_checkout_has_the_cache_that_make_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_CACHE_DIR", raising=False)
    told = run_command(
        ["make", "--no-print-directory", "-s", "-f", "-", "told"],
        input="include Makefile\ntold:\n\t@echo $$HARNESS_CACHE_DIR\n",
        cwd=ROOT, check=True,
        env={name: value for name, value in os.environ.items() if name not in ("HARNESS_CACHE_DIR", "MAKEFLAGS")}
    ).stdout.strip()  # fmt: skip
    assert cache_directory() == Path(told) == ROOT / ".cache"


def test_the_variable_comes_first_and_a_wheel_has_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(jars, "_CHECKOUT", tmp_path)  # site-packages: no Makefile in it
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("HARNESS_CACHE_DIR", raising=False)
    assert cache_directory() == tmp_path / "xdg" / "kafka-harness"
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "own"))
    assert cache_directory() == tmp_path / "own"


@pytest.mark.parametrize(("there", "told"), [((), True), (("mvn", "go"), False)])
def test_doctor_suggests_only_what_is_missing(
    there: tuple[str, ...], told: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("harness.cli.hosts.doctor.shutil.which", lambda name: name if name in there else None)
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))  # no other release was fetched
    fixes = {check.name: check.fix for check in doctor._checks("auto")}
    (kafka,) = [fix for name, fix in fixes.items() if name.startswith("Apache Kafka")]
    assert ("apt install maven" in kafka) is told
    assert ("install Go" in fixes["Toxiproxy server"]) is told
    assert "HARNESS_CACHE_DIR" not in "".join(fixes.values())


@pytest.mark.parametrize(
    ("there", "got"),
    [
        (("kafka-clients-3.9.1.jar", "kafka_2.13-3.9.1.jar"), "got kafka-clients-3.9.1.jar, kafka_2.13-3.9.1.jar"),
        ((), "got no jar of Kafka"),
        (None, "got no directory"),
    ],
)
def test_a_directory_of_another_version_is_told_and_left_as_it_is(
    there: tuple[str, ...] | None, got: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Maven put its 92 files into it."""
    directory = tmp_path / "mine"
    for name in there or ():
        directory.mkdir(exist_ok=True)
        (directory / name).touch()
    if there == ():
        directory.mkdir()
    monkeypatch.setenv("KAFKA_HARNESS_JARS", str(directory))
    monkeypatch.setattr(jars.subprocess, "run", lambda *_, **__: pytest.fail("Maven ran"))
    with pytest.raises(EnvironmentFault, match=r"KAFKA_HARNESS_JARS=.*expected the jars of Apache Kafka") as raised:
        jars.ensure_jars()
    assert got in str(raised.value)
    assert sorted(path.name for path in directory.glob("*")) == sorted(there or ())
