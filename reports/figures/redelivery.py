"""What readers that remove redelivered records told: duplicates before and after, one sentence a reader. Pure.

The load process counts them against an exact memory of identities (workloads/redelivery.py) and puts the figures in the
cell's health. Shown by tests/reports/test_reports_redelivery.py.
"""

from __future__ import annotations

import re
from collections import defaultdict

from reports.read.cell import Json

_KEY = re.compile(r"redelivery_([a-z0-9-]+)_([a-z_]+)")  # a reader's name has no underscore


def redelivery_sentences(health: Json) -> list[str]:
    readers: dict[str, dict[str, int]] = defaultdict(dict)
    for key, value in health.items():
        match = _KEY.fullmatch(key)
        if match is not None and isinstance(value, int):
            readers[match[1]][match[2]] = value
    return [_sentence(name, counts) for name, counts in sorted(readers.items())]


def _sentence(name: str, counts: dict[str, int]) -> str:
    records, again = counts.get("records", 0), counts.get("duplicates_before", 0)
    handed_on, after = counts.get("handed_on", 0), counts.get("duplicates_after", 0)
    text = (
        f"Reader {name} got {records:,} records, {again:,} of them again; "
        f"after removal it handed on {handed_on:,}, {after:,} of them again."
    )
    if counts.get("wrongly_removed"):
        text += f" {counts['wrongly_removed']:,} were removed although they had never been handed on."
    if counts.get("not_judged"):
        text += f" {counts['not_judged']:,} came after the memory of the count was full and are in no figure."
    return text
