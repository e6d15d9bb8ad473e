"""`python -m tests.compatibility`: every client tries every feature, every tool is run; writes the page.

The page is docs/reference/compatibility.md; clients' own tests (suites) are run as well.
--clients and --features choose by a part of the name, --failed chooses what failed last time: the page keeps what is
known of the others. --beside-kafka runs each of the clients' own tests on Apache Kafka as well, in the same run. With
both options, what did not run beside Apache Kafka yet, or failed there, counts as open. Exit 1 when a cell failed.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from tests.compatibility import page
from tests.compatibility.clients import CLIENTS, CannotPrepare
from tests.compatibility.features import SECTIONS
from tests.compatibility.suites import SUITES, Suite
from tests.compatibility.suites.suite import ALONE, BESIDE_KAFKA
from tests.compatibility.tools import TOOLS, run
from tests.compatibility.trial import Trial, try_client
from tests.compatibility.world import AUTHORIZED, World


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compatibility", description=__doc__)
    names = ", ".join([run.NAME, *SUITES])
    parser.add_argument("--clients", default="", help=f"only those whose name contains this; also {names}")
    parser.add_argument("--features", default="", help="only features, tools and tests whose name contains this")
    parser.add_argument("--failed", action="store_true", help="only what the page says has failed or was not tried")
    parser.add_argument("--beside-kafka", action="store_true", help="clients' own tests: each on Apache Kafka as well")
    parser.add_argument("--directory", type=Path, help="keep the brokers' and drivers' files in a new directory here")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if chosen.directory is not None:
            chosen.directory.mkdir(parents=True, exist_ok=True)
        failed = _try_all(_Chosen(chosen), chosen.directory or Path(temporary))
    return 1 if failed else 0


class _Chosen:
    """What of all there is."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._clients, self._features, self._failed = arguments.clients, arguments.features, arguments.failed
        self.kinds = BESIDE_KAFKA if arguments.beside_kafka else ALONE

    def has_client(self, client: str) -> bool:
        return self._clients in client

    def has(self, client: str, feature: str) -> bool:
        return self._features in feature and (not self._failed or _is_open(client, feature))

    def has_test(self, suite: str, test: str) -> bool:
        is_open = not self._failed or _is_open(suite, test, is_beside_kafka=self.kinds is BESIDE_KAFKA)
        return self._features in test and is_open


def _try_all(chosen: _Chosen, parent: Path) -> int:
    """How many cells failed."""
    failed = 0
    for kind in (kind for kind in CLIENTS if chosen.has_client(kind.name)):
        features = [each for section in SECTIONS.values() for each in section if chosen.has(kind.name, each.name)]
        if features:
            with World(_directory(parent, kind.name), settings=AUTHORIZED) as world:
                failed += _save(try_client(kind, world, features, _tell))
    tools = [tool.name for tool in TOOLS if chosen.has_client(run.NAME) and chosen.has(run.NAME, tool.name)]
    if tools:
        with World(_directory(parent, run.NAME)) as world:
            failed += _save(run.try_tools(world, tools, _tell))
    for suite in (suite for suite in SUITES.values() if chosen.has_client(suite.name)):
        failed += _try_suite(suite, chosen, parent)
    return failed


def _try_suite(suite: Suite, chosen: _Chosen, parent: Path) -> int:
    def save(trial: Trial) -> None:
        page.save([trial])

    try:
        place = _directory(parent, suite.name)
        failed = suite.run(place, lambda test: chosen.has_test(suite.name, test), save, _tell, chosen.kinds)
    except CannotPrepare as error:
        _tell(f"{suite.name}: not tried: {error}")
        return 1
    page.keep_only(suite.name, suite.tests())
    return failed


def _directory(parent: Path, name: str) -> Path:
    """Without a comma, which would part the broker's log directories."""
    return Path(tempfile.mkdtemp(prefix=re.sub(r"[^\w.]+", "-", name.replace("'", "")) + "-", dir=parent))


def _save(trial: Trial) -> int:
    page.save([trial])
    return sum(cell.state == "failed" for cell in trial.cells)


def _is_open(client: str, feature: str, *, is_beside_kafka: bool = False) -> bool:
    trial = page.load().get(client)
    cells = {cell.feature: cell for cell in trial.cells} if trial is not None else {}
    cell = cells.get(feature)
    return cell is None or cell.state == "failed" or (is_beside_kafka and cell.kafka in ("", "failed"))


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
