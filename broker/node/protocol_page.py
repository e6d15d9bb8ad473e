"""`python -m broker.node.protocol_page`: writes docs/reference/protocol.md from the table of APIs.

Versions come from broker/wire/apis.py, and remarks from the docstring of each handler, so neither is written twice.
kafka_apis.tsv lists the APIs that Apache Kafka 4.3.1 offers (key, lowest, highest version, name; clients' and
controllers' listeners together), as in its class ApiKeys.
Shown by tests/broker_node/test_node_protocol_page.py.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from broker.node.api_table import api_table
from broker.node.features.table import FEATURES
from broker.wire.apis import APIS, ApiKey, Listener

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "protocol.md"
KAFKA_APIS_FILE = Path(__file__).with_name("kafka_apis.tsv")

# Why an API of Kafka 4.3 is not implemented. A test fails if a key is missing in both tables.
NOT_IMPLEMENTED: dict[str, str] = {
    "there are no client quotas (KIP-13, KIP-546)": "DESCRIBE_CLIENT_QUOTAS ALTER_CLIENT_QUOTAS",
    "it serves quotas of changes (KIP-599), and there are none": "ENVELOPE",
    "the quorum's voters are fixed (no KIP-853)": "ADD_RAFT_VOTER REMOVE_RAFT_VOTER UPDATE_RAFT_VOTER",
    "all nodes are brokers and voters; none registers as a controller only": "CONTROLLER_REGISTRATION",
    "there are no delegation tokens (KIP-48)": (
        "CREATE_DELEGATION_TOKEN RENEW_DELEGATION_TOKEN EXPIRE_DELEGATION_TOKEN DESCRIBE_DELEGATION_TOKEN"
    ),
    "clients are not asked for metrics (KIP-714)": "GET_TELEMETRY_SUBSCRIPTIONS PUSH_TELEMETRY",
    "there are no streams groups (KIP-1071)": "STREAMS_GROUP_HEARTBEAT STREAMS_GROUP_DESCRIBE",
}

_INTRODUCTION = """# What of Kafka's protocol the broker implements

Written by `python -m broker.node.protocol_page` from broker/wire/apis.py and from the first docstring of each
handler. Tests compare it with both. Kafka's versions are those of Apache Kafka 4.3.1. What was tried with which client:
[compatibility.md](compatibility.md). Where answers differ from Apache Kafka's: [differences.md](differences.md).
Who may ask for what: [authorization.md](authorization.md). Settings: [settings.md](settings.md).

*All*: every version that Apache Kafka 4.3.1 serves. Record batches are of version 2 (KIP-98) with gzip, snappy, lz4 and
zstd; older message formats are refused, as by Kafka since 4.0 (KIP-724). A request of another API or version closes the
connection, but for ApiVersions, which is answered with UNSUPPORTED_VERSION (KIP-511).
"""
_LISTENERS = {Listener.CLIENT: "clients", Listener.INTER_BROKER: "brokers", Listener.CONTROLLER: "controllers"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaApi:
    """An API as a node of Apache Kafka 4.3.1 offers it, on the clients' listener or, if not there, on the
    controllers'."""

    key: int
    min_version: int
    max_version: int
    name: str


def kafka_apis() -> dict[int, KafkaApi]:
    rows = [line.split("\t") for line in KAFKA_APIS_FILE.read_text().splitlines()]
    return {
        int(key): KafkaApi(key=int(key), min_version=int(low), max_version=int(high), name=name)
        for key, low, high, name in rows
    }


def page() -> str:
    theirs = kafka_apis()
    lines = [_INTRODUCTION, "| API | key | Apache Kafka 4.3.1 | here | for | remarks |", "|---|---|---|---|---|---|"]
    lines += [_row(ApiKey(key), theirs.get(key)) for key in sorted(APIS)]
    missing = {api.name: api for key, api in theirs.items() if key not in APIS}
    lines += ["", "## Not implemented", "", "| API | key | versions | why |", "|---|---|---|---|"]
    for reason, names in NOT_IMPLEMENTED.items():
        for name in names.split():
            if name in missing:
                api = missing[name]
                lines.append(f"| {_title(name)} | {api.key} | {_range(api.min_version, api.max_version)} | {reason} |")
    return "\n".join(lines) + "\n"


def _row(key: ApiKey, theirs: KafkaApi | None) -> str:
    ours = APIS[key]
    here = _range(ours.min_version, ours.max_version)
    if theirs is not None and (theirs.min_version, theirs.max_version) == (ours.min_version, ours.max_version):
        here += ", all"
    if ours.advertised_min_version != ours.min_version:
        here += f" (advertised from {ours.advertised_min_version})"
    listeners = ", ".join(name for listener, name in _LISTENERS.items() if listener in ours.listeners)
    file, remarks = _remarks(key)
    known = "-" if theirs is None else _range(theirs.min_version, theirs.max_version)
    return f"| [{_title(key.name)}](../../{file}) | {int(key)} | {known} | {here} | {listeners} | {remarks} |"


def _remarks(key: ApiKey) -> tuple[str, str]:
    """The handler's file and its docstring, without the name and versions, which the row already has."""
    module = importlib.import_module(api_table(FEATURES).rows[key].module)
    text = " ".join((module.__doc__ or "").split())
    head, _, rest = text.partition(":")
    if not rest:
        head, _, rest = text.partition(". ")
    file = str(Path(str(module.__file__)).relative_to(ROOT))
    return file, (rest.strip() if "(key" in head else text).replace("|", "/")


def _title(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _range(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low}-{high}"


def main() -> None:
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
