"""explore.html: the page of a search, live and afterwards. One offline file without scripts; it computes nothing.

While the search runs, the page asks the browser to load it anew. Shown by tests/reports/test_reports_exploration.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment

from reports.figures.exploration import CURVE, LEFT, ROW, WIDTH, exploration_figures
from reports.render.files import replace_text
from reports.render.templating import environment_with
from reports.render.words import number, seconds
from runlog.files.strangers import clean_text

PAGE: Final = "explore.html"
RELOAD_S: Final = 15


def write_exploration_page(document: Mapping[str, Any], stories: Mapping[int, str], into: Path) -> Path:
    """`document` is explore.json, and `stories` are the texts of its findings by their numbers."""
    path = into / PAGE
    replace_text(path, render(document, stories))
    return path


@cache
def _environment() -> Environment:
    """Of its own: the one of reports brings the charts, which a search does not need."""
    return environment_with(number=number, seconds=seconds)


def render(document: Mapping[str, Any], stories: Mapping[int, str]) -> str:
    page = _environment().get_template("explore.html.j2")
    text = page.render(
        run=document,
        stories=stories,
        figures=exploration_figures(document),
        left=LEFT,
        width=WIDTH,
        row_height=ROW,
        curve_height=CURVE,
        reload_s=RELOAD_S,
    )
    return clean_text(text)
