"""Files of JSON lines as plain dictionaries, for what a test asserts of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from runlog.files.json_lines import Event


def read_jsonl(path: Path) -> Iterator[Event]:
    """Events of a file in order; none when it does not exist. Lines torn by a kill are left out."""
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
        event = parse_line(line)
        if event is not None:
            yield event


def parse_line(line: bytes) -> Event | None:
    """One event, or None for a torn or empty line."""
    if not line.endswith(b"\n"):
        return None
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None
