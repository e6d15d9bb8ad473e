"""What is built from: files have hashes, the build backend and the actions are pinned, the bill names all of it."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.patience import run_command

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock")


def pins(path: str) -> dict[str, str]:
    found = re.findall(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)", (ROOT / path).read_text(), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def test_no_package_is_in_both_lock_files() -> None:
    assert pins("requirements.lock").keys() & pins("requirements-dev.lock").keys() == set()


@pytest.mark.parametrize("lock", [*LOCKS, "requirements-store.lock"])
def test_every_package_of_a_lock_has_a_hash_and_no_host_is_named(lock: str) -> None:
    text = (ROOT / lock).read_text()
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(pins(lock)) > 10
    assert [block.split()[0] for block in blocks if not re.search(r"--hash=sha256:[0-9a-f]{64}", block)] == []
    assert "://" not in text
    assert "-url" not in text


@pytest.mark.parametrize("path", ["Makefile", "containers/Dockerfile"])
def test_whatever_is_installed_is_checked_against_its_hash_or_is_the_project_itself(path: str) -> None:
    lines = (ROOT / path).read_text().replace("\\\n", " ").splitlines()
    installs = [line for line in lines if "pip install" in line]
    assert installs
    own = ("--no-deps --no-build-isolation -e .", "--no-deps --no-build-isolation . ")
    assert [line for line in installs if "--require-hashes" not in line and not any(each in line for each in own)] == []


def test_what_source_distributions_are_built_with_is_locked() -> None:
    assert {"setuptools", "hatchling", "editables"} <= pins("requirements.lock").keys()


@pytest.mark.slow
def test_wheels_that_set_up_builds_are_not_compressed(tmp_path: Path) -> None:
    """PySpark's holds half a gigabyte of jars. A small project is built with what `make setup` gives to pip."""
    assert (
        "DIST_EXTRA_CONFIG=$(CURDIR)/.ci/wheels.cfg $(BIN)/pip install --require-hashes"
        in (ROOT / "Makefile").read_text()
    )
    (tmp_path / "setup.py").write_text(
        "from setuptools import setup\nsetup(name='small', version='1', py_modules=['small'])\n"
    )
    (tmp_path / "small.py").write_text("x = 0\n" * 1000)
    build = "from setuptools import build_meta; print(build_meta.build_wheel('.'))"
    environment = {**os.environ, "DIST_EXTRA_CONFIG": str(ROOT / ".ci" / "wheels.cfg")}
    command = [sys.executable, "-c", build]
    run_command(command, cwd=tmp_path, env=environment, check=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        assert {member.compress_type for member in wheel.infolist()} == {zipfile.ZIP_STORED}


def test_the_build_backend_has_the_version_of_the_lock() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert wanted == [f"hatchling=={pins('requirements.lock')['hatchling']}"]


@pytest.mark.slow
def test_the_bill_of_materials_names_each_package_once_with_its_hashes(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        run_command([sys.executable, ROOT / ".ci" / "sbom.py", tmp_path / name], check=True)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes(), "the same lock, the same bill"
    document = json.loads((tmp_path / "a.json").read_text())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.5")
    locked = pins("requirements.lock") | pins("requirements-dev.lock")
    assert {item["name"]: item["version"] for item in document["components"]} == locked
    assert all(item["hashes"] for item in document["components"])
    references = [item["bom-ref"] for item in document["components"]]
    assert len(set(references)) == len(references)
    assert document["dependencies"][0]["dependsOn"] == references


def test_the_example_for_github_asks_for_no_more_than_reading_and_pins_its_actions() -> None:
    workflow = YAML(typ="safe", pure=True).load((ROOT / "examples" / "ci" / "github.yml").read_text())
    assert workflow["permissions"] == {"contents": "read"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    actions = [step["uses"] for step in steps if "uses" in step]
    assert actions
    assert [action for action in actions if not re.search(r"@[0-9a-f]{40}$", action)] == []
    checkout = next(step for step in steps if step.get("uses", "").startswith("actions/checkout@"))
    assert checkout["with"]["persist-credentials"] is False


def test_no_image_runs_as_root() -> None:
    stages = re.split(r"^FROM .* AS ", (ROOT / "containers" / "Dockerfile").read_text(), flags=re.MULTILINE)[1:]
    users = {stage.split()[0]: re.findall(r"^USER (.*)$", stage, re.MULTILINE)[-1] for stage in stages}
    assert users == {"runtime": "10001:10001", "report": "10001:10001"}


def test_no_container_of_the_composition_has_a_privilege() -> None:
    services = YAML(typ="safe", pure=True).load((ROOT / "docker-compose.yml").read_text())["services"]
    assert {service.get("user") for service in services.values()} == {None, "${HARNESS_USER:-10001:10001}"}
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        mounts = [volume for volume in service.get("volumes", ()) if not volume.endswith(":ro")]
        assert not mounts or "user" in service, f"{name}: what it writes belongs to whoever asked for it"


def test_every_image_that_is_fetched_is_named_by_its_digest_and_it_is_one_image() -> None:
    places = ("containers/Dockerfile", "docker-compose.yml", "examples/ci/gitlab.yml")
    named = [re.findall(r"\bpython:[\w.-]+(?:@sha256:[0-9a-f]+)?", (ROOT / place).read_text()) for place in places]
    assert [len(each) for each in named] == [1, 2, 1]
    [image] = {image for each in named for image in each}
    assert re.fullmatch(r"python:3\.11-slim-bookworm@sha256:[0-9a-f]{64}", image)


ADVICE = re.compile(r"pip install ((?:\\?'[^']+'[ \"\n]*)+)")


def test_advice_to_install_names_packages_and_not_this_project() -> None:
    """`pip install 'kafka-harness[x]'` asks an index for a name that anybody may take. The packages of an extra are
    what is missing, and a message that names them works outside of a checkout too."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    known = {requirement for name, own in extras.items() if name != "dev" for requirement in own}
    named: set[str] = set()
    for package in ("harness", "broker", "workloads", "chaos", "reports", "runlog"):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text()
            assert "kafka-harness[" not in text, path
            named |= {word for found in ADVICE.findall(text) for word in re.findall(r"'([^']+)'", found)}
    assert named == known
