"""RUN/search.json, which the harness writes at the end of a rate search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from reports.read.cell import Json

FILE_NAME: Final = "search.json"
SCHEMA_VERSION: Final = 1


def read_search(directory: Path) -> Json | None:
    """None without a search, or if its file cannot be read (the page then has no such section)."""
    try:
        document = json.loads((directory / FILE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and document.get("schema_version") == SCHEMA_VERSION else None
