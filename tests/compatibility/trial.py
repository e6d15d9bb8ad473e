"""Trying every feature with one client: cells of the table, each with what happened.

The results are: passed; `client` (the client lacks the feature, in its driver's words); `broker` (the broker answered
that it does not have the API or version); failed, with the reason. No cell has another source.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.compatibility.clients import CannotPrepare, ClientKind
from tests.compatibility.driver import ClientFailure, Driver, NoAnswer, Unsupported
from tests.compatibility.features.feature import Client, Feature
from tests.compatibility.world import World

# An API or version that a broker lacks, in the words of the client libraries.
NOT_IMPLEMENTED = re.compile(
    r"unsupported.?version|UnsupportedVersion|does not support|not supported by broker|unsupported feature|"
    r"no matching API|broker.*too old|Incompatible broker|doesn.t support|NotSupportedByBroker|unsupported by|"
    r"version of API is not supported",
    re.IGNORECASE,
)


REASON_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    feature: str
    state: str  # passed | client | broker | failed; of clients' own tests also skipped | kafka
    reason: str = ""
    seconds: float = 0.0
    # Of clients' own tests that ran beside Apache Kafka, what they did there: passed | skipped | failed.
    kafka: str = ""
    kafka_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    client: str
    language: str
    version: str
    cells: tuple[Cell, ...]


def try_client(
    kind: ClientKind, world: World, features: Iterable[Feature], tell: Callable[[str], None] = lambda _: None
) -> Trial:
    """Every feature in turn on one world. A client that cannot be had fails in every cell, with the reason."""
    try:
        prepared = kind.prepare()
    except CannotPrepare as error:
        untried = tuple(Cell(feature=each.name, state="failed", reason=f"not tried: {error}") for each in features)
        return Trial(client=kind.name, language=kind.language, version="", cells=untried)
    log = world.directory / f"{kind.name.replace(' ', '-')}.log"
    driver = Driver(prepared.command, world.bootstrap, log, prepared.environment)
    cells = []
    try:
        for feature in features:
            cell = _try_feature(driver, world, feature)
            tell(f"{kind.name}: {feature.name}: {cell.state} {cell.reason} ({cell.seconds:.1f} s)")
            cells.append(cell)
    finally:
        driver.close()
    return Trial(client=kind.name, language=kind.language, version=prepared.version, cells=tuple(cells))


def _try_feature(driver: Driver, world: World, feature: Feature) -> Cell:
    begin = time.monotonic()
    state, reason = "passed", ""
    try:
        feature.attempt(Client(driver), world)
    except Unsupported as error:
        state, reason = "client", str(error)
    except ClientFailure as error:
        state, reason = "broker" if NOT_IMPLEMENTED.search(str(error)) else "failed", str(error)
    except Exception as error:  # whatever else goes wrong in a feature is that cell's failure, not the table's
        state, reason = "failed", f"{type(error).__name__}: {error}"
    try:
        driver.call("reset", timeout_s=30)
    except (ClientFailure, NoAnswer, Unsupported):
        driver.close()
    world.whole_again()
    return Cell(feature=feature.name, state=state, reason=_short(reason), seconds=time.monotonic() - begin)


def _short(reason: str) -> str:
    return reason.split("\n")[0][:REASON_CHARACTERS]
