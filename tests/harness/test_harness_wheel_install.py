"""What a user without a checkout does: `pip install` into a new venv, then `harness run` from any directory.

Neither Go, Maven nor Docker is on the PATH, no Toxiproxy server is named, and the sources are gone after the
installation, so that all that a run needs must be in the wheel.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.patience import run_command

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("harness", "broker", "workloads", "chaos", "reports", "runlog")
ABSENT: Final = frozenset({"go", "gofmt", "mvn", "mvnDebug", "docker", "dockerd", "toxiproxy-server", "harness"})
FEWER_CELLS: Final = 'sweep.vary={"batch.size": [131072], "compression.type": ["zstd"]}'  # all seven faults stay

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.spark,
    # PySpark alone is 430 MB to fetch and unpack. The run takes three minutes on an idle host.
    pytest.mark.timeout(2_100),
]


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "-C", str(REPOSITORY), "ls-files", "-z"], capture_output=True, text=True, timeout=30, check=True
    )
    return [Path(name) for name in listing.stdout.split("\0") if name and (REPOSITORY / name).is_file()]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A venv with the project installed from a copy of its tracked files; the copy is removed again."""
    root = tmp_path_factory.mktemp("wheel")
    sources, home = root / "sources", root / "venv"
    for path in tracked_files():
        (sources / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / path, sources / path)
    venv.create(home, with_pip=True)
    versions = root / "versions.txt"  # of the lock without its hashes: a directory has none, and pip wants all or none
    pins = re.findall(r"^[^\s#]+==[^\s\\]+", (sources / "requirements.lock").read_text(), re.MULTILINE)
    versions.write_text("\n".join(pins))
    installed = run_command(
        [home / "bin" / "pip", "install", "--quiet", "-c", versions, sources],
        cwd=root,
        env={name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
    )
    assert installed.returncode == 0, installed.stderr[-4000:]
    shutil.rmtree(sources)
    yield home
    shutil.rmtree(root, ignore_errors=True)  # more than a gigabyte


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """A directory with links to every program on the PATH but those that a user need not have."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for folder in map(Path, os.environ["PATH"].split(os.pathsep)):
        if folder.is_relative_to(REPOSITORY) or not folder.is_dir():
            continue
        for program in folder.iterdir():
            if program.name not in ABSENT and not (directory / program.name).is_symlink():
                (directory / program.name).symlink_to(program)
    return directory


def site_packages(environment: Path) -> Path:
    return environment / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def test_every_tracked_file_of_the_packages_is_installed(environment: Path) -> None:
    wanted = [path for path in tracked_files() if path.parts[0] in PACKAGES]
    missing = [str(path) for path in wanted if not (site_packages(environment) / path).is_file()]
    assert missing == []
    assert any(path.suffix == ".yaml" for path in wanted), "the suites are among what was looked for"


def test_installed_harness_runs_the_demo_without_go_maven_docker_or_checkout(
    environment: Path, bare_path: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    kept = ("JAVA_HOME", "LANG", "LC_ALL", "TMPDIR")
    clean = {name: os.environ[name] for name in kept if name in os.environ}
    clean |= {"PATH": str(bare_path), "HOME": str(tmp_path / "home")}  # no cache, no state, no Toxiproxy server
    (tmp_path / "home").mkdir()
    assert [name for name in ABSENT if shutil.which(name, path=str(bare_path))] == []
    done = run_command(
        [environment / "bin" / "harness", "run", "demo", "--toxiproxy", "embedded", "--set", FEWER_CELLS],
        cwd=elsewhere,
        env=clean,
    )
    told = f"stdout:\n{done.stdout[-3000:]}\nstderr:\n{done.stderr[-3000:]}"
    # 4: a sweep cell that this host disturbed three times in a row; the seven verdicts below do not depend on speed.
    assert done.returncode in (0, 4), told
    report = elsewhere / done.stdout.splitlines()[-1]
    assert report.name == "report.html", told
    assert report.is_relative_to(elsewhere), told
    assert report.read_text(encoding="utf-8").rstrip().endswith("</html>"), told
    cells = json.loads((report.parent / "results" / "verdicts.json").read_text(encoding="utf-8"))["cells"]
    chaos = [cell for cell in cells if cell["kind"] == "chaos"]
    assert {cell["cell_id"]: cell["verdict"] for cell in chaos} == {cell["cell_id"]: "pass" for cell in chaos}, told
    damaged = [kind for cell in chaos for kind in ("lost", "duplicated", "reordered") if cell[kind] > 0]
    assert (len(chaos), sorted(damaged)) == (7, ["duplicated", "lost", "reordered"]), told
