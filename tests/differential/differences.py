"""The named differences between our broker and Apache Kafka 4.3.1: where each shows, and why it is let stand.

A difference is a place in an answer (API, path of fields) with both values. One that no entry here names fails the run;
an entry that a whole run never met is told, so that the table does not outlive its reasons.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from broker.wire.apis import ApiKey
from tests.differential.generator import Asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One place where the answers differ. `path` as in `topics.partitions.error_code`."""

    asked: Asked
    path: str
    theirs: Any
    ours: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    name: str
    why: str
    applies: Callable[[Found], bool]


def at(apis: str, path: str = ".*", theirs: str = ".*", ours: str = ".*") -> Callable[[Found], bool]:
    """Regular expressions over the API's name, the path and both values."""

    def applies(found: Found) -> bool:
        return bool(
            re.fullmatch(apis, found.asked.key.name)
            and re.fullmatch(path, found.path)
            and re.fullmatch(theirs, str(found.theirs), re.DOTALL)
            and re.fullmatch(ours, str(found.ours), re.DOTALL)
        )

    return applies


# What Apache Kafka 4.3.1 offers to clients and we do not: SaslHandshake, CreateAcls and the like, share and streams
# groups, delegation tokens, telemetry. One that comes to be missing, or a range that changes, is a new difference.
LACKING = frozenset({17})
RANGES = {1: (4, 18)}  # theirs


def _offers(found: Found) -> bool:
    if found.asked.key is not ApiKey.API_VERSIONS or found.path != "api_keys":
        return False
    theirs = {each["api_key"]: (each["min_version"], each["max_version"]) for each in found.theirs}
    ours = {each["api_key"]: (each["min_version"], each["max_version"]) for each in found.ours}
    wider = {key: theirs.get(key) for key, versions in ours.items() if theirs.get(key) != versions}
    return theirs.keys() - ours.keys() == LACKING and wider == RANGES


def _holds(value: Any, wanted: Callable[[str, Any], bool]) -> bool:
    """Is there a field, anywhere in these values of a request, for which `wanted(name, value)`?"""
    if isinstance(value, Mapping):
        return any(wanted(name, each) or _holds(each, wanted) for name, each in value.items())
    return isinstance(value, list | tuple) and any(_holds(each, wanted) for each in value)


def asks(name: str, *values: Any) -> Callable[[Found], bool]:
    """The request has a field of that name with one of these values."""
    return lambda found: _holds(found.asked.values, lambda field, value: field == name and value in values)


def both(*parts: Callable[[Found], bool]) -> Callable[[Found], bool]:
    return lambda found: all(part(found) for part in parts)


def _quotas_of_others(found: Found) -> bool:
    """Without the entities that have a part other than client-id the lists are the same."""
    if found.asked.key is not ApiKey.DESCRIBE_CLIENT_QUOTAS or found.path != "entries":
        return False
    kept = [each for each in found.theirs or () if {part["entity_type"] for part in each["entity"]} == {"client-id"}]
    return isinstance(found.ours, list) and kept == found.ours and len(found.theirs) > len(kept)


_alters_quotas_of_others = both(
    at("ALTER_CLIENT_QUOTAS", "entries.error_code", "none", "invalid_request"), asks("entity_type", "user", "ip")
)


NAMED: tuple[Named, ...] = (
    Named(
        name="ApiVersions: APIs and versions",
        why="What we offer is in [protocol.md](protocol.md); what we lack is named there.",
        applies=_offers,
    ),
    Named(
        name="ApiVersions: features",
        why="Of the features of a cluster only transaction.version is one here; there is no UpdateFeatures.",
        applies=at("API_VERSIONS", "(supported_features|finalized_features|finalized_features_epoch)(\\..*)?"),
    ),
    Named(
        name="DescribeConfigs: min.insync.replicas",
        why="With the feature of eligible leader replicas (KIP-966) Apache Kafka sets it as a dynamic default of the "
        "cluster. The value is the same, its source is not.",
        applies=at("DESCRIBE_CONFIGS", "results.configs.config_source", "3", "5"),
    ),
    Named(
        name="No answer to a Produce without records",
        why="Apache Kafka fails inside and leaves the client to its time limit; here INVALID_RECORD.",
        applies=both(at("PRODUCE", re.escape("(whole)"), "does not answer"), asks("records", None)),
    ),
    Named(
        name="No answer to an empty AddPartitionsToTxn",
        why="Apache Kafka waits for the last of no transactions; here an empty answer.",
        applies=both(
            at("ADD_PARTITIONS_TO_TXN", re.escape("(whole)"), "does not answer"),
            lambda found: found.asked.values.get("transactions") == [],
        ),
    ),
    Named(
        name="Fetch by the zero topic id",
        why="Apache Kafka fails inside (UNKNOWN_SERVER_ERROR for all); here UNKNOWN_TOPIC_ID for that topic.",
        applies=both(at("FETCH", "error_code|responses|session_id"), asks("topic_id", None)),
    ),
    Named(
        name="ListOffsets: the largest timestamp after DeleteRecords",
        why="Apache Kafka names a record that was deleted, as long as its segment is there; here one that can be read.",
        applies=both(
            at("LIST_OFFSETS", r"topics\.partitions\.(offset|timestamp|leader_epoch)"),
            asks("timestamp", -3),
            lambda found: bool(re.match("d21v", str(found.asked.values["topics"][0]["name"]))),
        ),
    ),
    Named(
        name="Quotas of users and addresses",
        why="Without authentication there is no user, and limits by address are not kept: refused, so never described.",
        applies=lambda found: _quotas_of_others(found) or _alters_quotas_of_others(found),
    ),
    Named(
        name="Loggers",
        why="Resource type 8, the log levels of a running broker, is a matter of Apache Kafka's own logging library.",
        applies=both(
            at("(DESCRIBE|ALTER|INCREMENTAL_ALTER)_CONFIGS", "(results|responses).(error_code|configs)"),
            asks("resource_type", 8),
        ),
    ),
)


def compare(asked: Asked, theirs: Any, ours: Any) -> Iterator[Found]:
    """Every place where two masked answers differ."""
    yield from _walk(asked, "", theirs, ours)


def _walk(asked: Asked, path: str, theirs: Any, ours: Any) -> Iterator[Found]:
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        for name in theirs:
            yield from _walk(asked, f"{path}.{name}".lstrip("."), theirs[name], ours[name])
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for one, other in zip(theirs, ours, strict=True):
            yield from _walk(asked, path, one, other)
    elif theirs != ours:
        yield Found(asked=asked, path=path or "(whole)", theirs=theirs, ours=ours)


def name_of(found: Found, named: Iterable[Named] = NAMED) -> str | None:
    return next((each.name for each in named if each.applies(found)), None)


def page(counts: Counter[str], requests: Counter[str], equal: Counter[str], seeds: Iterable[int]) -> str:
    """docs/differences.md."""
    total, same = sum(requests.values()), sum(equal.values())
    lines = [
        "# Answers that differ from Apache Kafka's",
        "",
        "Written by `make differential`: the same requests, drawn by a seed, valid and invalid, of every API and",
        "version that the broker offers to clients, go to it and to a node of Apache Kafka 4.3.1. Answers are compared",
        "field by field; ids that a broker makes up, addresses, times and texts of errors are masked. What differs all",
        "the same must be named here (tests/differential/differences.py), or the run fails.",
        "",
        "Not asked: a thing named twice in one request of an API whose answer to that is an accident of Apache Kafka's",
        "maps (`NEVER_TWICE` in tests/differential/generator.py); what needs several brokers, TLS or an authoriser.",
        "",
        f"Last run: seeds {', '.join(map(str, seeds))}; {total:,} requests, {same:,} answered the same, "
        f"{total - same:,} with a named difference.",
        "",
        "| difference | answers | why it stands |",
        "|---|---|---|",
    ]
    lines += [f"| {each.name} | {counts[each.name]:,} | {each.why} |" for each in NAMED]
    lines += ["", "## Requests by API", "", "| API and version | requests | same |", "|---|---|---|"]
    lines += [f"| {title} | {requests[title]:,} | {equal[title]:,} |" for title in requests]
    return "\n".join(lines) + "\n"
