"""Every handler says the types of the API that it serves, and of no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.node import features, handlers
from broker.node.api_table import api_table
from broker.node.features.table import FEATURES
from broker.wire.apis import ApiKey

FOLDERS = [Path(handlers.__file__).parent, *Path(features.__file__).parent.glob("*/handlers")]
MODULES = sorted(path for folder in FOLDERS for path in folder.glob("*.py"))
FILES = [path for path in MODULES if path.name.startswith("api_")]
REQUESTS = ("AnyRequest", "Request")


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_handler_has_the_types_of_its_own_api(path: Path) -> None:
    _, number, name = path.stem.split("_", 2)
    assert ApiKey(int(number)).name == name.upper()
    assert f"    from broker.wire.shapes import {name} as shapes\n" in path.read_text()
    message = "".join(part.capitalize() for part in name.split("_")) + "Request"
    asked = {
        ast.unparse(argument.annotation)
        for function in _functions(path)
        for argument in function.args.args
        if argument.arg == "request" and argument.annotation is not None
    }
    assert asked
    assert asked <= {f"{kind}[shapes.{message}]" for kind in REQUESTS}


def test_no_handler_builds_an_answer_from_untyped_mappings() -> None:
    assert [path for path in MODULES if "dict[str, object]" in path.read_text()] == []


def test_each_row_of_the_table_is_served_by_the_file_of_its_key() -> None:
    for key, row in api_table(FEATURES).rows.items():
        file = row.module.rpartition(".")[2]
        assert file in (f"api_{int(key):02}_{key.name.lower()}", "voters")
