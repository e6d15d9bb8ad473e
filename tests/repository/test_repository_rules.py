"""What a machine can check about the repository itself: the import contracts, and that set-up files agree."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.patience import run_command

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_import_contracts_hold() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    done = run_command([program], cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_every_dependency_is_locked_within_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [Requirement(text) for text in project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        wanted.extend(Requirement(text) for text in extra)
    names = ("requirements.lock", "requirements-dev.lock", "requirements-store.lock")
    locks = "\n".join((ROOT / name).read_text() for name in names)
    pins = (line.split("==") for line in locks.split() if "==" in line)
    locked = {canonicalize_name(name): version for name, version in pins}
    outside = [str(each) for each in wanted if locked.get(canonicalize_name(each.name), "none") not in each.specifier]
    assert outside == []


@pytest.mark.slow
def test_no_file_has_the_marks_of_an_unfinished_merge_or_is_a_link() -> None:
    """A link would name a path of the machine on which it was made."""
    listed = run_command(["git", "ls-files", "-s"], cwd=ROOT, check=True)
    links = [line for line in listed.stdout.splitlines() if line.startswith("120000")]
    assert links == []
    marks = run_command(["git", "grep", "-lE", "^(<{7}|>{7}) "], cwd=ROOT)
    assert marks.stdout == ""


def test_readme_opens_with_the_two_commands() -> None:
    opening = (ROOT / "README.md").read_text().split("```")[1]
    commands = [line.split("#")[0].strip() for line in opening.splitlines()[1:] if line.strip()]
    assert commands == ["make demo", "make test"]


def test_every_make_target_of_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"`make ([a-z-]+)`", (ROOT / document).read_text()))
        assert set() == named - targets, f"{document} names make targets that do not exist"


@pytest.mark.slow
def test_every_link_of_a_page_leads_to_a_file_and_a_heading() -> None:
    tracked = run_command(["git", "ls-files", "*.md"], cwd=ROOT)
    pages = [ROOT / name for name in tracked.stdout.split()]
    dead = set()
    for page in pages:
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", prose):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if re.match(r"[a-z]+:", link):
                continue
            if not target.exists() or (anchor and anchor not in _anchors(target)):
                dead.add(f"{page.relative_to(ROOT)}: {link}")
    assert dead == set()


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = (heading.strip().lower() for heading in re.findall(r"^#+ (.*)$", prose, flags=re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


@pytest.mark.slow
def test_the_project_names_no_registry_host() -> None:
    hosts = re.compile(r"(pypi\.org|pythonhosted|repo1?\.maven|maven\.org|proxy\.golang|registry\.npmjs)")
    tracked = run_command(["git", "ls-files"], cwd=ROOT)
    names = tracked.stdout.split() or [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py")]
    found = [
        name
        for name in names
        if Path(name).suffix in {".py", ".md", ".toml", ".yaml", ".yml", ".xml", ".lock", ""}
        and name != "tests/repository/test_repository_rules.py"
        and (ROOT / name).is_file()
        and hosts.search((ROOT / name).read_text(errors="replace"))
    ]
    assert found == []


@pytest.mark.thorough
def test_every_test_that_a_module_names_exists() -> None:
    """A docstring says which test shows what it claims; a name that leads nowhere is worse than none."""
    known = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    packages = ("broker", "chaos", "harness", "reports", "runlog", "workloads", "benchmarks")
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for package in packages
        for path in (ROOT / package).rglob("*.py")
        for name in re.findall(r"\btest_\w+\.py", path.read_text(encoding="utf-8"))
        if name not in known
    }
    assert missing == set()


def test_nothing_stands_in_the_broker_s_door_that_nobody_takes() -> None:
    packages = ("harness", "workloads", "chaos", "examples", "benchmarks")
    files = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    taken = {word for path in files for word in re.findall(r"\w+", path.read_text())}
    for module in (ROOT / "broker" / "door").glob("[a-z]*.py"):
        offered = set(re.findall(r'^    "(\w+)",$', module.read_text(), re.MULTILINE))
        assert offered, module
        assert offered - taken == set(), module


def test_the_map_of_each_room_names_each_module_and_room_once() -> None:
    clusters = ROOT / "harness" / "clusters"
    in_rooms = [ROOT / "harness" / name for name in ("cli", "run", "explore")]
    rooms = [room for package in in_rooms for room in _rooms(package)]
    listed = [clusters / name for name in ("requests", "secured", "hosts")]
    for directory in (*in_rooms, *rooms, clusters, *listed, ROOT / "harness" / "terminal"):
        named = re.findall(r"`(\w+)`", (directory / "__init__.py").read_text())
        modules = [path.stem for path in directory.glob("*.py") if path.stem != "__init__"]
        there = modules + [path.name for path in _rooms(directory)]
        assert sorted(named) == sorted(there), f"{directory}/__init__.py lists what is there"


def _rooms(directory: Path) -> list[Path]:
    return [path.parent for path in directory.glob("*/__init__.py")]
