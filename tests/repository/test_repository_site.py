"""The documentation is built as a site: every page is in it, every link leads somewhere, a dead one fails the build."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from ruamel.yaml import YAML

from tests.patience import run_command

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def docs_site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / ".ci" / "docs_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_of_docs_stands_in_the_navigation_once() -> None:
    config = YAML(typ="safe", pure=True).load((ROOT / ".ci" / "mkdocs.yml").read_text())

    def pages(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        values = entry.values() if isinstance(entry, dict) else entry
        assert not isinstance(values, str)
        return [page for value in values for page in pages(value)]  # type: ignore[attr-defined]

    named = pages(config["nav"])
    there = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert len(named) == len(set(named))
    assert {page for page in named if not page.startswith("project/")} == there


@pytest.mark.slow
@pytest.mark.long
def test_the_site_builds_and_its_search_knows_the_pages(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / ".ci" / "docs_site.py", tmp_path / "site"]
    done = run_command(command)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "site" / "search.json").read_text())
    places = {item["location"].partition("#")[0] for item in found["items"]}
    assert {"index.html", "start/first-suite.html", "reference/settings.html", "project/GLOSSARY.html"} <= places
    assert not [place for place in places if place.startswith("source/")], "sources would drown the pages"
    pages = [path for path in (tmp_path / "site").rglob("*.html") if "source" not in path.parts]
    assert not [path for path in pages if "<p>```" in path.read_text()], "a fence that was not understood"
    page = (tmp_path / "site" / "internals" / "inside.html").read_text()
    assert "source/broker/log/segment.py.html" in page
    assert not re.search(r'(?:src|href)="https?://[^"]*\.(?:js|css|woff2?)"', page), "it asks nobody else for anything"


def test_a_link_into_the_sources_leads_to_a_page_but_not_in_an_example(docs_site: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "docs" / "guide").mkdir(parents=True)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "part.py").write_text('"""```not a fence```"""\n')
    (tmp_path / "NOTES.md").write_text("back to [a](docs/guide/a.md#here)")
    (tmp_path / "docs" / "guide" / "a.md").write_text(
        "[p](../../code/part.py#L1) [n](../../NOTES.md) [d](../../code/) [w](https://a.example)\n"
        "```\n[x](../../code/part.py)\n```\n[gone](../b.md)\n"
    )
    assert docs_site.stage(tmp_path / "out", tmp_path) == 4
    page = (tmp_path / "out" / "guide" / "a.md").read_text()
    assert "[p](../source/code/part.py.md) [n](../project/NOTES.md) [d](../source/code/index.md)" in page
    assert "[w](https://a.example)\n```\n[x](../../code/part.py)\n```" in page
    assert "[gone](../b.md)" in page, "it stays, so that the build fails"
    assert (tmp_path / "out" / "project" / "NOTES.md").read_text() == "back to [a](../guide/a.md#here)"
    assert (tmp_path / "out" / "source" / "code" / "part.py.md").read_text().count("````") == 2


def test_a_directory_that_is_no_site_is_not_replaced(docs_site: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    assert docs_site.main([str(tmp_path)]) == 2
    assert (tmp_path / "precious").read_text() == "mine"
