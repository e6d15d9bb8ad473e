"""`python -m tests.differential`: our broker and Apache Kafka 4.3.1 side by side; writes docs/reference/differences.md.

--apis chooses APIs by a part of the name and writes nothing. Exit 1 when an answer differs in a way that has no name.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from broker.wire.apis import ApiKey
from tests.differential import guarded
from tests.differential.differences import NAMED, Found, page
from tests.differential.generator import chapters
from tests.differential.run import Result, both, run

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "differences.md"
SHOWN_MAX = 300
SHOWN_CHARACTERS = 600
_KNOWN = re.compile(r"d\d\dv\d+-\w+|\d{3,}")  # names and large numbers: differences that vary in them are one kind


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--requests", type=int, default=40, help="requests for each API and version")
    parser.add_argument("--apis", default="", help="only APIs whose name contains this; comma-separated")
    parser.add_argument("--guarded", action="store_true", help="with access control lists (guarded.py)")
    chosen = parser.parse_args()
    parts = [part for part in chosen.apis.upper().split(",") if part]
    keys = [key for key in ApiKey if any(part in key.name for part in parts)]
    with ThreadPoolExecutor(len(chosen.seeds)) as side_by_side:
        results = list(side_by_side.map(lambda seed: _one(seed, chosen.requests, keys, chosen.guarded), chosen.seeds))
    result = Result.of_all(results)
    _show(result.unnamed)
    total, same = sum(result.requests.values()), sum(result.equal.values())
    _tell(f"{total} requests, {same} answered the same, named: {dict(result.named)}")
    if not parts and not chosen.guarded:
        for each in NAMED:
            if not result.named[each.name]:
                _tell(f"never met: {each.name}")
        if not result.unnamed:
            PAGE.write_text(page(result.named, result.requests, result.equal, chosen.seeds))
    return 1 if result.unnamed else 0


def _one(seed: int, requests: int, keys: list[ApiKey], is_guarded: bool) -> Result:
    result = Result()
    with tempfile.TemporaryDirectory() as directory, both(Path(directory), is_guarded=is_guarded) as (theirs, ours):
        asked = chapters(seed, requests, keys=keys)
        rules_of = (lambda chapter: guarded.rules_of(chapter, seed)) if is_guarded else None
        run(theirs, ours, asked, result, lambda text: _tell(f"seed {seed}: {text}"), rules_of=rules_of)
    return result


def _show(unnamed: list[Found]) -> None:
    """Each kind once, with how often it came, in which versions, and one request."""
    kinds: dict[tuple[str, str, str, str], list[Found]] = defaultdict(list)
    for each in unnamed:
        kinds[each.asked.key.name, each.path, _KNOWN.sub("", str(each.theirs)), _KNOWN.sub("", str(each.ours))].append(
            each
        )
    for (api, path, _, _), found in sorted(kinds.items())[:SHOWN_MAX]:
        versions = sorted({each.asked.version for each in found})
        _tell(f"{api} {path}: {len(found)} times, versions {versions}")
        _tell(f"  Apache Kafka: {str(found[0].theirs)[:SHOWN_CHARACTERS]}")
        _tell(f"  ours:         {str(found[0].ours)[:SHOWN_CHARACTERS]}")
        _tell(f"  asked: {dict(found[0].asked.values)}")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
