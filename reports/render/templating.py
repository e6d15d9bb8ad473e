"""Jinja's environment for the pages of this package. The page of a search uses it without the charts of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def environment_with(**filters: Callable[..., Any]) -> Environment:
    """Filters return what Jinja shows: text, numbers or markup. A name that a template does not get is an error."""
    made = Environment(
        loader=PackageLoader("reports.render", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(filters)
    return made
