"""The compiled part is optional: archives hold its source, and a wheel the library if this machine could build it."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from harness import VERSION
from tests.patience import run_command

ROOT = Path(__file__).resolve().parents[2]
LIBRARY, SOURCE = "broker/wire/_record_check.abi3.so", "broker/wire/_record_check.c"
HAS_COMPILER = shutil.which("cc") is not None

pytestmark = pytest.mark.slow


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """What the build needs, without the repository's .gitignore, as an image has it; a library of another machine."""
    directory = tmp_path / "sources"
    directory.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, directory / name)
    for package in ("harness", "broker", "workloads", "chaos", "reports", "runlog"):
        (directory / package).mkdir()
        (directory / package / "__init__.py").touch()
    shutil.copyfile(ROOT / "harness/__init__.py", directory / "harness/__init__.py")  # it has the version
    (directory / SOURCE).parent.mkdir()
    for name in (SOURCE, "broker/wire/__init__.py", "broker/wire/record_check.py"):
        shutil.copyfile(ROOT / name, directory / name)
    (directory / LIBRARY).write_bytes(b"of another machine")
    return directory


def build(sources: Path, target: str, compiler: str | None) -> tuple[Path, str]:
    """The archive, and what the build said."""
    environment = {name: value for name, value in os.environ.items() if name not in ("CC", "CFLAGS")}
    if compiler is not None:
        environment["CC"] = compiler
    out = sources.parent / "out"
    done = run_command(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)], cwd=sources, env=environment
    )
    assert done.returncode == 0, done.stderr
    (archive,) = out.iterdir()
    return archive, done.stdout + done.stderr


@pytest.mark.skipif(not HAS_COMPILER, reason="no C compiler")
def test_a_wheel_with_the_library_has_the_tag_of_the_platform(sources: Path) -> None:
    wheel, _ = build(sources, "wheel", None)
    assert wheel.name.startswith(f"kafka_harness-{VERSION}-cp311-abi3-linux_")
    with zipfile.ZipFile(wheel) as archive:
        library = archive.read(LIBRARY)
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        assert b"Root-Is-Purelib: false" in archive.read(metadata)
    assert library.startswith(b"\x7fELF")
    assert (sources / LIBRARY).read_bytes() == b"of another machine", "a wheel is built without touching the sources"


@pytest.mark.parametrize(
    ("compiler", "why_not"), [("/bin/false", "/bin/false: exit code 1"), ("no-such-cc", "no C compiler (no-such-cc)")]
)
def test_a_wheel_without_a_compiler_is_pure_and_the_build_says_so(sources: Path, compiler: str, why_not: str) -> None:
    wheel, said = build(sources, "wheel", compiler)
    assert wheel.name == f"kafka_harness-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert SOURCE in names
    assert not [name for name in names if name.endswith(".so")]
    assert f"records are checked in Python: {why_not}" in " ".join(said.split())


def test_a_source_distribution_can_build_the_part(sources: Path) -> None:
    archive, _ = build(sources, "sdist", "/bin/false")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {SOURCE, "hatch_build.py"} <= names
    assert not [name for name in names if name.endswith(".so")]


def test_a_failed_build_leaves_no_library_of_an_earlier_one(tmp_path: Path) -> None:
    target = tmp_path / "part.so"
    target.write_bytes(b"earlier")
    script = "import sys, pathlib, hatch_build; print(hatch_build.build(pathlib.Path(sys.argv[1])))"
    done = run_command([sys.executable, "-c", script, target], cwd=ROOT, env={**os.environ, "CC": "/bin/false"})
    assert done.stdout.strip() == "/bin/false: exit code 1", done.stderr
    assert list(tmp_path.iterdir()) == []
