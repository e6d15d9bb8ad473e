"""Of clients in a version that are compiled here: what is compiled, and what can be had at all."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from workloads.clients.process.build import Built, version_of
from workloads.clients.process.rust import compile_rust
from workloads.clients.process.shipped import sources
from workloads.clients.process.versions.crates import CARRIED, LibrdkafkaCrate
from workloads.clients.process.versions.installers import NoSuchVersion
from workloads.clients.process.versions.maven import Maven
from workloads.clients.process.versions.short_jvm import is_short_lived, short_lived
from workloads.clients.process.versions.table import VERSIONS

pytestmark = pytest.mark.slow
JAVA = VERSIONS["java"]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """mvn, javac and cargo that write down what they are asked for. Maven has the versions 3.1.0 and 4.1.0."""
    asked = tmp_path / "asked"
    scripts = {
        "mvn": "mkdir -p libs; case $* in *3.1.0*) touch libs/kafka-clients-3.1.0.jar;; *4.1.0*) ;; "
        "*) echo Could not find artifact org.apache.kafka:kafka-clients:jar:9.9; exit 1;; esac",
        "javac": "echo javac 17.0.1",
        "cargo": "mkdir -p $CARGO_TARGET_DIR/release; echo 1 >> $CARGO_TARGET_DIR/compiled; "
        "echo $CFLAGS > flags; cp Cargo.toml Cargo.lock; [ -e no-time ] || touch $CARGO_TARGET_DIR/release/client",
        "rustc": "echo rustc 1.90.0",
        "go": "",
    }
    (tmp_path / "bin").mkdir()
    for name, script in scripts.items():
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/sh\necho {name} $* >> {asked}\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return asked


@pytest.mark.parametrize(("version", "shares"), [("3.1.0", False), ("4.1.0", True)])
def test_share_groups_are_compiled_only_for_versions_that_have_those_of_today(
    version: str, shares: bool, tools: Path, tmp_path: Path
) -> None:
    resolved = JAVA.install(f"java=={version}", version, tmp_path)
    asked = tools.read_text()
    assert f"-Dkafka.version={version}" in asked
    assert ("Sharing.java" in asked) is shares
    assert resolved["java"] == "17.0.1"
    assert resolved.get("kafka-clients") == (None if shares else "3.1.0")


def test_a_version_that_maven_does_not_have_is_told_by_name(tools: Path, tmp_path: Path) -> None:
    with pytest.raises(
        NoSuchVersion, match=r"client java==9\.9: Maven Central has no org\.apache\.kafka:kafka-clients"
    ):
        JAVA.install("java==9.9", "9.9", tmp_path)


def test_the_jdk_of_java_home_is_used_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert isinstance(JAVA, Maven)
    assert JAVA.start(tmp_path).command[0] == str(tmp_path / "bin" / "java")


@pytest.mark.parametrize(
    ("client", "version", "oldest"), [("franz-go", "1.14.4", "1.15.0"), ("sarama", "1.40.1", "1.41.0")]
)
def test_a_version_that_lacks_what_our_program_calls_is_refused_before_anything_is_fetched(
    client: str, version: str, oldest: str, tools: Path, tmp_path: Path
) -> None:
    with pytest.raises(NoSuchVersion, match=rf"v{version} lacks what our program calls.* nearest: {oldest}"):
        VERSIONS[client].install(f"{client}=={version}", version, tmp_path)
    assert not tools.exists()


@pytest.mark.parametrize("version", CARRIED)
def test_each_version_of_librdkafka_asks_for_the_crates_that_carry_it(
    version: str, tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installer = LibrdkafkaCrate()
    place = tmp_path / "clients" / "growing"
    place.mkdir(parents=True)
    for name, text in installer.sources.items():
        (place / name).write_text(text)
    monkeypatch.setattr("tomllib.loads", lambda text: {"package": [{"name": "client", "version": "1"}]})
    assert installer.install(f"librdkafka=={version}", version, place)["librdkafka"] == version
    manifest = (place / "Cargo.toml").read_text()
    assert f'rdkafka = {{ version = "={CARRIED[version].crate}"' in manifest
    assert f'rdkafka-sys = {{ version = "={CARRIED[version].bindings}"' in manifest
    assert CARRIED[version].features in tools.read_text()
    assert (place / "client").exists()
    assert not (place / "target").exists()


def test_what_was_compiled_stays_for_a_second_try_and_for_other_versions(tools: Path, tmp_path: Path) -> None:
    """On a busy host a build once ran out of its time again and again, because each began anew."""
    one, other = tmp_path / "clients" / "one", tmp_path / "clients" / "other"
    for place in (one, other):
        place.mkdir(parents=True)
        (place / "Cargo.toml").touch()
    (one / "no-time").touch()
    with pytest.raises(OSError, match="client"):
        compile_rust("librdkafka==1.8.2", one)
    (one / "no-time").unlink()
    compile_rust("librdkafka==1.8.2", one)
    compile_rust("librdkafka==1.9.2", other, ["--features", "before-37"])
    assert (one / "client").exists()
    assert (other / "client").exists()
    kept = [path for path in (tmp_path / "clients").iterdir() if path.is_dir() and path not in (one, other)]
    assert [(path / "compiled").read_text() for path in kept] == ["1\n1\n1\n"]
    assert (one / "flags").read_text() == "-g0\n"
    assert "cargo build --release --features before-37" in tools.read_text()


def test_what_is_built_without_a_version_is_one_of_those_that_can_be_chosen() -> None:
    own = CARRIED[version_of("librdkafka")]
    assert f'version = "={own.bindings}"' in sources("rust")["Cargo.toml"]
    assert own.features == ""


def test_a_librdkafka_that_no_crate_carries_is_told_with_those_beside_it(tmp_path: Path) -> None:
    with pytest.raises(
        NoSuchVersion, match=r"crates\.io has no rdkafka-sys with .* nearest: 1\.7\.0, 1\.8\.2, 1\.9\.2, 2"
    ):
        VERSIONS["librdkafka"].install("librdkafka==1.9.0", "1.9.0", tmp_path)


def test_a_jvm_of_a_short_trial_has_no_slow_compiler_and_other_programs_stay_as_they_are() -> None:
    started = JAVA.start(Path("/made"))
    quick = short_lived(started)
    assert quick.command[0] == started.command[0]
    assert "-XX:TieredStopAtLevel=1" in quick.command
    assert [word for word in quick.command if word in started.command] == list(started.command)
    other = Built(command=("node", "client.js"), environment={"A": "1"})
    assert short_lived(other) is other
    assert [is_short_lived(each.command) for each in (quick, started, other)] == [True, False, False]
