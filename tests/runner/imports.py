"""How far each test file is from what a change touches, in imports.

An arrow leads from a file to each file of this repository that it imports, and to each module that it starts as a
process (`[..., "-m", "broker.node"]`). A file that is no source (a scenario, a template, a page) touches the sources of
the package around it, and those that name it. Shown by tests/repository/test_repository_runner.py.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

_STEM_MIN: Final = 5  # shorter names stand everywhere
_WORD = re.compile(r"[\w-]+")


def distances(sources: Mapping[str, str], changed: Iterable[str]) -> dict[str, int]:
    """Steps from each test file (`tests/.../test_*.py`) to the nearest changed file; those that reach none are left
    out. `sources`: the text of each Python file by its path from the root, with slashes."""
    importers = defaultdict(set)
    for path, imported in arrows(sources).items():
        for each in imported:
            importers[each].add(path)
    steps = dict.fromkeys(touched_sources(sources, changed), 0)
    waiting = deque(steps)
    while waiting:
        path = waiting.popleft()
        for importer in sorted(importers[path]):
            if importer not in steps:
                steps[importer] = steps[path] + 1
                waiting.append(importer)
    return {path: count for path, count in steps.items() if is_test(path)}


def is_test(path: str) -> bool:
    return path.startswith("tests/") and PurePosixPath(path).name.startswith("test_")


def touched_sources(sources: Mapping[str, str], changed: Iterable[str]) -> list[str]:
    """In order. A source that is gone touches nothing: what imported it has changed too."""
    touched = set()
    for path in changed:
        if path in sources:
            touched.add(path)
        elif not path.endswith(".py"):
            touched |= _around(sources, path) | _naming(sources, path)
    return sorted(touched)


def _around(sources: Mapping[str, str], path: str) -> set[str]:
    """The modules of the nearest package above."""
    for directory in PurePosixPath(path).parents:
        if f"{directory}/__init__.py" in sources:
            return {each for each in sources if str(PurePosixPath(each).parent) == str(directory)}
    return set()


def _naming(sources: Mapping[str, str], path: str) -> set[str]:
    stem = PurePosixPath(path).name.split(".")[0]
    if len(stem) < _STEM_MIN:
        return set()
    return {each for each, text in sources.items() if stem in text and stem in _WORD.findall(text)}


def arrows(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """The files that each file imports or starts. The bare name of a helper means the one beside the test first."""
    places = _Places(sources)
    return {path: set(places.of(path, ast.parse(text))) - {path} for path, text in sources.items()}


class _Places:
    """Which file a name means."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._modules: dict[str, str] = {}
        self._helpers: dict[str, list[str]] = defaultdict(list)
        for path in sources:
            parts = PurePosixPath(path).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] in ("__init__", "__main__") else parts)
            if parts[-1] == "__main__":
                self._modules[f"{name}.__main__"] = path
            else:
                self._modules[name] = path
            if parts[0] == "tests":
                self._helpers[parts[-1]].append(path)

    def of(self, path: str, tree: ast.AST) -> Iterator[str]:
        package = PurePosixPath(path).parent.parts
        for node in ast.walk(tree):
            match node:
                case ast.Import():
                    for alias in node.names:
                        yield from self._found(alias.name, path)
                case ast.ImportFrom():
                    base = package[: len(package) - node.level + 1] if node.level else ()
                    module = ".".join([*base, *([node.module] if node.module else [])])
                    yield from self._found(module, path)
                    for alias in node.names:
                        yield from self._found(f"{module}.{alias.name}", path)
                case ast.Constant(value=str(word)) if "." in word and f"{word}.__main__" in self._modules:
                    yield self._modules[f"{word}.__main__"]  # a command that is put together elsewhere
                case ast.List() | ast.Tuple():
                    yield from self._started(node.elts)

    def _found(self, name: str, importer: str) -> Iterator[str]:
        if name in self._modules:
            yield self._modules[name]
        elif helpers := self._helpers.get(name):
            beside = str(PurePosixPath(importer).with_name(f"{name}.py"))
            yield beside if beside in helpers else helpers[0]

    def _started(self, elements: list[ast.expr]) -> Iterator[str]:
        words = [each.value if isinstance(each, ast.Constant) else None for each in elements]
        for option, module in pairwise(words):
            if option == "-m" and isinstance(module, str):
                names = (f"{module}.__main__", module)
                yield from [self._modules[name] for name in names if name in self._modules][:1]
