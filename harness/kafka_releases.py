"""Releases of Apache Kafka: how they are named, the Java that each runs on, and what an older one cannot do. Pure.

Known here are the releases that Maven Central had in 2026. A later one is tried all the same, because only Maven knows
whether it is there (jars.py). Shown by tests/harness/test_harness_kafka_releases.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from harness.errors import UsageError
from harness.suite_source import nearest


class Release(NamedTuple):
    """Ordered by age, as upgrades go."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice:
    """What `--cluster` says. `releases` of the brokers, in turn; empty: what the suite or the scenario says."""

    engine: str
    releases: tuple[str, ...] = ()


OLDEST: Final = Release(3, 3, 0)  # the first release whose KRaft is meant for production (KIP-833)
# Not the newest. Docs and comparisons of the reference broker are about this one, and `make setup-dev` brings its jars.
DEFAULT: Final = Release(4, 3, 1)
# An elected controller tells its endpoint to the others (KIP-853). Earlier brokers refuse to advertise it.
ADVERTISES_CONTROLLERS: Final = Release(3, 9, 0)
_KAFKA: Final = "kafka"
_EQUALS: Final = "=="
_PATTERN: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})")
_KNOWN: Final = (
    "3.3.1", "3.3.2", "3.4.0", "3.4.1", "3.5.0", "3.5.1", "3.5.2", "3.6.0", "3.6.1", "3.6.2", "3.7.0", "3.7.1", "3.7.2",
    "3.8.0", "3.8.1", "3.9.0", "3.9.1", "3.9.2", "4.0.0", "4.0.1", "4.0.2", "4.1.0", "4.1.1", "4.1.2", "4.2.0", "4.2.1",
    "4.2.2", "4.3.0", "4.3.1", "4.4.0",
)  # fmt: skip

# What a workload, a topic or a scenario asks for, and the first release that has it for production.
SHARE_GROUPS: Final = "share groups (KIP-932)"
CONSUMER_PROTOCOL: Final = "group.protocol=consumer (KIP-848)"
TRANSACTION_VERSION_2: Final = "transaction.version 2 (KIP-890)"
SEVERAL_LOG_DIRECTORIES: Final = "several log directories (KIP-858)"
CORDONED_DIRECTORIES: Final = "cordoned log directories (KIP-1066)"
SCRAM: Final = "SCRAM users of a new cluster (KIP-900)"
TOKENS: Final = "the validator of OAUTHBEARER's tokens under its public name"
ELIGIBLE_REPLICAS: Final = "eligible leader replicas (KIP-966)"
SINCE: Final[Mapping[str, Release]] = {
    SHARE_GROUPS: Release(4, 2, 0),
    CONSUMER_PROTOCOL: Release(4, 0, 0),
    TRANSACTION_VERSION_2: Release(4, 0, 0),
    SEVERAL_LOG_DIRECTORIES: Release(3, 7, 0),
    CORDONED_DIRECTORIES: Release(4, 3, 0),
    SCRAM: Release(3, 5, 0),
    TOKENS: Release(3, 9, 0),
    ELIGIBLE_REPLICAS: Release(4, 1, 0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaRange:
    """Major versions. `newest` is the newest that the release's documentation calls supported."""

    oldest: int
    newest: int


# kafka.apache.org/XY/operations/java-version
_JAVA: Final[Sequence[tuple[Release, JavaRange]]] = (
    (Release(4, 2, 0), JavaRange(oldest=17, newest=25)),
    (Release(4, 0, 0), JavaRange(oldest=17, newest=21)),
    (Release(3, 9, 0), JavaRange(oldest=8, newest=21)),
    (OLDEST, JavaRange(oldest=8, newest=17)),
)


def parse_release(text: str) -> Release:
    """UsageError names what is wrong, and the nearest known release."""
    found = _PATTERN.fullmatch(text)
    if found is None:
        hint = nearest(text, _KNOWN) or f"; known are {_KNOWN[0]} to {_KNOWN[-1]}"
        raise UsageError(f"Apache Kafka {text!r}: expected a release of three numbers, like {DEFAULT}{hint}")
    release = Release(*map(int, found.groups()))
    if release < OLDEST:
        raise UsageError(
            f"Apache Kafka {release}: expected {OLDEST.major}.{OLDEST.minor} or later: brokers run without ZooKeeper "
            "here, and earlier releases call that a preview"
        )
    return release


def parse_releases(texts: Sequence[str]) -> tuple[Release, ...]:
    """Of the brokers, in turn. None: all have the default."""
    return tuple(parse_release(text) for text in texts) or (DEFAULT,)


def cluster_choice(text: str) -> ClusterChoice:
    """`kafka==3.9.1`, or `kafka==3.9.1,4.3.1` for brokers of different releases; else the name of a kind of cluster.
    UsageError for a release that cannot be."""
    engine, separator, releases = text.partition(_EQUALS)
    if not separator:
        return ClusterChoice(engine=text)
    if engine != _KAFKA:
        raise UsageError(
            f"--cluster {text}: only {_KAFKA} has releases to choose from, like {_KAFKA}{_EQUALS}{DEFAULT}"
        )
    found = tuple(each.strip() for each in releases.split(","))
    for each in found:
        parse_release(each)
    return ClusterChoice(engine=engine, releases=found)


def near_release(release: Release) -> str:
    """Which known release was probably meant; empty for a known one."""
    return "" if str(release) in _KNOWN else nearest(str(release), _KNOWN) or f"; the newest known is {_KNOWN[-1]}"


def java_of(release: Release) -> JavaRange:
    return next(range_ for since, range_ in _JAVA if release >= since)


def lacking(releases: Sequence[Release], wanted: Sequence[str]) -> str:
    """The first thing wanted that one of the releases lacks, as words for a reader. Empty if they have all of it."""
    oldest = min(releases)
    missing = next((each for each in wanted if oldest < SINCE[each]), None)
    return "" if missing is None else f"Apache Kafka {oldest} lacks {missing}, which came with {SINCE[missing]}"


def version_words(began: Sequence[Release], now: Sequence[Release] | None = None) -> str:
    """What a report calls the cluster: the releases of its brokers, and those that they were changed to."""
    first = f"Apache Kafka {_each_once(began)}"
    return first if now is None or tuple(began) == tuple(now) else f"{first}, then {_each_once(now)}"


def _each_once(releases: Sequence[Release]) -> str:
    return " and ".join(map(str, dict.fromkeys(releases)))
