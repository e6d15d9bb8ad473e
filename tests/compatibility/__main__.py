"""`python -m tests.compatibility`: every client tries every feature, every tool is run; writes the page.

The page is docs/compatibility.md; franz-go's own tests are run as well.
--clients and --features choose by a part of the name, --failed chooses what failed last time: the page keeps what is
known of the others. Exit 1 when a cell failed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from tests.compatibility import page, suites
from tests.compatibility.clients import CLIENTS
from tests.compatibility.features import SECTIONS
from tests.compatibility.tools import TOOLS, run
from tests.compatibility.trial import Trial, try_client
from tests.compatibility.world import World

Attempts: TypeAlias = Callable[[World, Sequence[str], Callable[[str], None]], Trial]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compatibility", description=__doc__)
    parser.add_argument(
        "--clients", default="", help=f"only those whose name contains this; also {run.NAME}, {suites.NAME}"
    )
    parser.add_argument("--features", default="", help="only features whose name contains this")
    parser.add_argument("--failed", action="store_true", help="only what the page says has failed or was not tried")
    parser.add_argument("--directory", type=Path, help="keep the brokers' and drivers' files in a new directory here")
    chosen = parser.parse_args()
    features = [each for section in SECTIONS.values() for each in section if chosen.features in each.name]
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        if chosen.directory is not None:
            chosen.directory.mkdir(parents=True, exist_ok=True)
        for kind in (kind for kind in CLIENTS if chosen.clients in kind.name):
            name = kind.name.replace(" ", "-")
            directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=chosen.directory or temporary))
            wanted = [each for each in features if not chosen.failed or _is_open(kind.name, each.name)]
            if not wanted:
                continue
            with World(directory) as world:
                trial = try_client(kind, world, wanted, _tell)
            failed += sum(cell.state == "failed" for cell in trial.cells)
            page.save([trial])
        parent = chosen.directory or Path(temporary)
        for name, every, attempt in (
            (run.NAME, [tool.name for tool in TOOLS], run.try_tools),
            (suites.NAME, suites.TESTS, suites.try_tests),
        ):
            if chosen.clients in name:
                failed += _try(
                    name, [each for each in every if chosen.features in each], attempt, chosen.failed, parent
                )
    return 1 if failed else 0


def _try(name: str, every: Sequence[str], attempt: Attempts, only_open: bool, parent: Path) -> int:
    wanted = [each for each in every if not only_open or _is_open(name, each)]
    if not wanted:
        return 0
    with World(Path(tempfile.mkdtemp(prefix=name.replace(" ", "-").replace("'", ""), dir=parent))) as world:
        trial = attempt(world, wanted, _tell)
    page.save([trial])
    return sum(cell.state == "failed" for cell in trial.cells)


def _is_open(client: str, feature: str) -> bool:
    trial = page.load().get(client)
    return trial is None or {cell.feature: cell.state for cell in trial.cells}.get(feature, "failed") == "failed"


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
