"""Builds the clients of other languages, each once into the cache, when it is used for the first time.

What is built lies in `cache`/clients by a hash of its sources, so another version of a client is another directory. Two
may build at once. Called by the harness; a load process gets the result as `runtime` of its plan. Shown by
tests/workloads/test_workloads_process_build.py.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from workloads.clients.process.making import BuildError, made, run_step
from workloads.clients.process.messages import Ability
from workloads.clients.process.rust import compile_rust
from workloads.clients.process.shipped import sources

COMMAND: Final = "process.command"  # keys of a plan's runtime; both are JSON
ENVIRONMENT: Final = "process.environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """`make` gets the client's name and the directory with its sources, and leaves there what `start` starts. `tool`:
    the program that has to be on PATH, and how to get it. `library`: where the sources name its version."""

    language: str  # the directory of its sources
    tool: str
    fix: str
    make: Callable[[str, Path], object]
    start: Callable[[Path], Built]
    library: tuple[str, str]  # a file, and a pattern with the version


def start_go(directory: Path) -> Built:
    return Built(command=(str(directory / "client"),))


def start_rust(directory: Path) -> Built:
    return Built(command=(str(directory / "client"),))


def start_node(directory: Path) -> Built:
    quiet = {"KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    return Built(command=("node", str(directory / "client.js")), environment=quiet)


def by(*words: str) -> Callable[[str, Path], object]:
    """A recipe's `make` that is one command."""
    return lambda client, directory: run_step(client, words, directory)


def _make_rust(client: str, directory: Path) -> None:
    compile_rust(client, directory, ["--locked"])


RECIPES: Final[Mapping[str, Recipe]] = {
    "franz-go": Recipe(
        language="go", tool="go", fix="install Go 1.26 or newer (go.dev)",
        make=by("go", "build", "-mod=readonly", "-o", "client", "."), start=start_go,
        library=("go.mod", r"twmb/franz-go v(\S+)"),
    ),
    "sarama": Recipe(
        language="sarama", tool="go", fix="install Go 1.26 or newer (go.dev)",
        make=by("go", "build", "-mod=readonly", "-o", "client", "."), start=start_go,
        library=("go.mod", r"IBM/sarama v(\S+)"),
    ),
    "kafkajs": Recipe(
        language="node", tool="npm", fix="install Node.js 18 or newer with npm (apt install nodejs npm)",
        make=by("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"), start=start_node,
        library=("package.json", r'"kafkajs": "(\S+)"'),
    ),
    "librdkafka": Recipe(
        language="rust", tool="cargo", fix="install Rust 1.85 or newer (rustup.rs), make and a C compiler",
        make=_make_rust, start=start_rust, library=("Cargo.toml", r"is librdkafka (\S+)\."),
    ),
}  # fmt: skip


def version_of(name: str) -> str:
    """Of the library, as the sources name it."""
    file, pattern = RECIPES[name].library
    found = re.search(pattern, sources(RECIPES[name].language)[file])
    return found[1] if found else "?"


def declares(name: str, ability: Ability) -> bool:
    """Whether its program has this word in `can`, as the sources say: a program that is not built has said nothing."""
    found = re.search(
        r"\bcan\b[\"']?\s*[:=]\s*(?:\[\]string\{|\[)([^\]}]*)", "\n".join(sources(RECIPES[name].language).values())
    )
    return found is not None and str(ability) in re.findall(r"[\"']([\w-]+)[\"']", found[1])


def missing_tool(name: str) -> str:
    """What has to be installed to build this client; empty if nothing."""
    return "" if shutil.which(RECIPES[name].tool) else f"{RECIPES[name].tool} is not on PATH"


def built(name: str, cache: Path) -> Built:
    """Builds it if it is not there. BuildError says why it cannot."""
    recipe = RECIPES[name]
    files = sources(recipe.language)
    place = _place(name, files, cache)
    if place.is_dir():
        return recipe.start(place)
    if problem := missing_tool(name):
        raise BuildError(f"client {name} cannot be built: {problem}; {recipe.fix}")

    def fill(directory: Path) -> None:
        write_files(directory, files)
        recipe.make(name, directory)

    return recipe.start(made(place, fill))


def write_files(directory: Path, files: Mapping[str, str]) -> None:
    for file, text in files.items():
        (directory / file).write_text(text, encoding="utf-8")


def is_built(name: str, cache: Path) -> bool:
    return _place(name, sources(RECIPES[name].language), cache).is_dir()


def runtime_of(command: Built) -> dict[str, str]:
    """As a plan carries it."""
    return {COMMAND: json.dumps(command.command), ENVIRONMENT: json.dumps(dict(command.environment))}


def from_runtime(runtime: Mapping[str, str]) -> Built | None:
    """None if the plan says nothing about a process."""
    if COMMAND not in runtime:
        return None
    return Built(command=tuple(json.loads(runtime[COMMAND])), environment=json.loads(runtime.get(ENVIRONMENT, "{}")))


def _place(name: str, files: Mapping[str, str], cache: Path) -> Path:
    return cache / "clients" / f"{name}-{digest_of(files)}"


def digest_of(files: Mapping[str, str]) -> str:
    """Of the sources: what is made of others goes into another directory."""
    return hashlib.sha256(json.dumps(sorted(files.items())).encode()).hexdigest()[:16]
