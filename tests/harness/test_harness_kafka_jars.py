"""Jars of a release: fetched once, whole or not at all, by one process at a time. What is not there is told by name."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harness.clusters.kafka import jars
from harness.clusters.kafka.jars import RESOLVED, ensure_jars, fetched_releases, has_jars, jar_directory
from harness.errors import EnvironmentFault, UsageError
from harness.kafka_releases import DEFAULT, Release
from tests.patience import wait_until

RELEASE = Release(3, 9, 1)
Maven = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def names(release: Release) -> list[str]:
    return [f"{name}-{release}.jar" for name in ("kafka_2.13", "kafka-tools", "kafka-clients")]


def fill(directory: Path, release: Release) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names(release):
        (directory / name).touch()
    return directory


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("KAFKA_HARNESS_JARS", raising=False)
    monkeypatch.setattr(jars.shutil, "which", lambda name: f"/bin/{name}")
    return tmp_path


def maven(monkeypatch: pytest.MonkeyPatch, *, brings: Sequence[str] = (), code: int = 0, says: str = "") -> list[Path]:
    """Instead of Maven: makes these files. Returns where it was told to put them."""
    places: list[Path] = []

    def run(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        options = dict(word[2:].split("=", 1) for word in command if word.startswith("-D"))
        place = Path(options["outputDirectory"])
        places.append(place)
        place.mkdir(parents=True, exist_ok=True)
        for name in brings:
            (place / name).touch()
        Path(options["outputFile"]).write_text(f"of {options['kafka.version']}", encoding="utf-8")
        return subprocess.CompletedProcess(list(command), code, stdout=says, stderr="")

    monkeypatch.setattr(jars.subprocess, "run", run)
    return places


def test_a_release_is_fetched_once_into_a_directory_of_its_own_with_what_was_resolved(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = maven(monkeypatch, brings=names(RELEASE))
    directory = ensure_jars(RELEASE)
    assert directory == cache / "kafka" / "3.9.1" == ensure_jars(RELEASE)
    assert (directory / RESOLVED).read_text(encoding="utf-8") == "of 3.9.1"
    assert len(places) == 1
    assert places[0] != directory, "it fetches into a place beside it"
    assert not places[0].exists()
    assert fetched_releases() == (RELEASE,)
    assert not has_jars(jar_directory())


@pytest.mark.parametrize("brings", [names(RELEASE)[:2], []])
def test_half_of_a_release_is_none(cache: Path, brings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    maven(monkeypatch, brings=brings)
    with pytest.raises(EnvironmentFault, match=r"could not fetch Apache Kafka 3\.9\.1"):
        ensure_jars(RELEASE)
    assert not (cache / "kafka" / "3.9.1").exists()
    assert [path.name for path in (cache / "kafka").iterdir()] == [".3.9.1.lock"]


def test_a_release_that_maven_does_not_know_is_bad_input_and_a_network_that_is_away_is_not(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven(monkeypatch, code=1, says="[ERROR] Could not find artifact org.apache.kafka:kafka_2.13:jar:3.9.7 in central")
    with pytest.raises(UsageError, match=r"Apache Kafka 3.9.7: Maven finds no such release; did you mean '3.9.\d'"):
        ensure_jars(Release(3, 9, 7))
    maven(monkeypatch, code=1, says="[ERROR] Unknown host: Temporary failure in name resolution")
    with pytest.raises(EnvironmentFault, match="Temporary failure"):
        ensure_jars(RELEASE)


@pytest.mark.thorough
def test_two_at_once_fetch_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = maven(monkeypatch, brings=names(RELEASE))
    run, begun, go_on = jars.subprocess.run, threading.Event(), threading.Event()

    def slow(command: Sequence[str], **options: object) -> object:
        begun.set()
        assert go_on.wait(60)
        return run(command, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(jars.subprocess, "run", slow)
    threads = [threading.Thread(target=ensure_jars, args=(RELEASE,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(begun.is_set, "the first fetches")
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert len(places) == 1
    assert has_jars(jar_directory(RELEASE), RELEASE)


def test_maven_that_does_not_end_is_told(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(command: Sequence[str], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(list(command), timeout)

    monkeypatch.setattr(jars.subprocess, "run", never)
    with pytest.raises(EnvironmentFault, match=r"did not fetch Apache Kafka 3\.9\.1 within 300 s"):
        ensure_jars(RELEASE)


def test_a_directory_of_the_users_is_for_the_release_in_it_and_others_come_from_the_cache(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = fill(tmp_path / "mine", RELEASE)
    monkeypatch.setenv("KAFKA_HARNESS_JARS", str(mine))
    assert ensure_jars(RELEASE) == mine
    fill(cache / "kafka" / "4.0.0", Release(4, 0, 0))
    assert ensure_jars(Release(4, 0, 0)) == cache / "kafka" / "4.0.0"
    with pytest.raises(EnvironmentFault, match=f"jars of Apache Kafka {DEFAULT}.*take --cluster kafka==3.9.1, or"):
        ensure_jars()
