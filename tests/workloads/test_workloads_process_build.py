"""Clients of other languages are built once, into the cache, when they are used; what is missing is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from workloads.clients.process import build
from workloads.clients.process.build import RECIPES, Built, built, by, from_runtime, is_built, runtime_of
from workloads.clients.process.making import BuildError
from workloads.clients.process.shipped import sources

pytestmark = pytest.mark.slow


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """franz-go with a build that only counts how often it was made."""
    count = tmp_path / "count"
    recipe = replace(RECIPES["franz-go"], tool="sh", make=by("sh", "-c", f"echo built >> {count}; touch client"))
    monkeypatch.setattr(build, "RECIPES", {"franz-go": recipe})
    return count


def test_a_client_is_built_once_from_the_sources_that_are_shipped(counted: Path, tmp_path: Path) -> None:
    assert not is_built("franz-go", tmp_path)
    first = built("franz-go", tmp_path)
    assert built("franz-go", tmp_path) == first
    assert counted.read_text() == "built\n"
    program = Path(first.command[0])
    assert {"client", "client.go", "go.mod", "go.sum"} <= {path.name for path in program.parent.iterdir()}
    assert [path.name for path in (tmp_path / "clients").glob("[!.]*")] == [program.parent.name]


def test_a_build_that_fails_tells_its_output_and_leaves_nothing(
    counted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(build.RECIPES["franz-go"], make=by("sh", "-c", "echo no network >&2; exit 1"))
    monkeypatch.setattr(build, "RECIPES", {"franz-go": recipe})
    with pytest.raises(BuildError, match=r"client franz-go: sh -c (.|\n)*no network"):
        built("franz-go", tmp_path)
    assert [path.suffix for path in (tmp_path / "clients").iterdir()] == [".lock"]


def test_a_tool_that_is_missing_is_told_with_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in RECIPES:
        with pytest.raises(BuildError, match=rf"client {name} cannot be built: .* is not on PATH; install"):
            built(name, tmp_path)


def test_a_plan_carries_how_the_client_is_started() -> None:
    command = Built(command=("node", "client.js"), environment={"A": "b c"})
    assert from_runtime(runtime_of(command)) == command
    assert from_runtime({"java.command": "java"}) is None


def test_every_recipe_has_sources_and_names_the_version_of_its_library() -> None:
    for name, recipe in RECIPES.items():
        assert sources(recipe.language)
        assert build.version_of(name)[0].isdigit()
