"""`python -m broker.node.settings_page [--jars DIR]`: writes docs/reference/settings.md from the tables in the code.

With --jars it first reads the names, types and defaults for kafka_settings.tsv and client_settings.tsv from Apache
Kafka's jars. Their configuration classes print their documentation as HTML.
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from broker.client.client_settings import NAMES_FILE as CLIENT_NAMES_FILE
from broker.client.client_settings import SCOPES, kafka_client_settings
from broker.client.client_settings import support_of as client_support_of
from broker.client.core.security_config import SecurityConfig
from broker.client.core.settings import property_name, settings_of
from broker.controller.broker_configs import DYNAMIC_BROKER_CONFIGS
from broker.controller.topic_configs import TOPIC_SETTINGS, Effect
from broker.controller.topics import PARTITIONS_MAX
from broker.kafka_settings import NAMES_FILE, kafka_settings
from broker.node.net.connection import ANSWERS_BYTES_MAX, IN_FLIGHT_REQUESTS_MAX
from broker.node.net.limits import ELEMENTS_MAX, ELEMENTS_MAX_OF, ELEMENTS_MAX_OF_PEERS
from broker.node.net.memory import ORDINARY_REQUEST_BYTES
from broker.node.net.server import (
    PEER_CONNECTIONS,
    PEER_REQUEST_BYTES_MAX,
    PEER_UNREAD_BYTES_MAX,
    SLOW_REQUEST_S,
    STALLED_REQUEST_S,
)
from broker.node.net.tls_listener import HANDSHAKE_TIMEOUT_S, HANDSHAKES_MAX
from broker.node.process.descriptors import FILE_DESCRIPTORS_MIN, OTHER_FILES
from broker.node.replicas.produce_checks import RECORD_ERRORS_MAX, UNPACKED_BYTES_MAX
from broker.node.settings.broker_settings import support_of
from broker.node.settings.config import COARSER_KEYS, SETTINGS
from broker.wire.apis import ApiKey
from broker.wire.compression import DECOMPRESSED_BYTES_MAX
from broker.wire.encoder import STRING_BYTES_MAX
from broker.wire.record_check import HEADERS_MAX, RECORDS_MAX

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
CLASSES = {
    "topic": "org.apache.kafka.storage.internals.log.LogConfig",
    "broker": "kafka.server.KafkaConfig",
}
CLIENT_CLASSES = {
    "producer": "org.apache.kafka.clients.producer.ProducerConfig",
    "consumer": "org.apache.kafka.clients.consumer.ConsumerConfig",
}
_ITEM = re.compile(r'<h4><a id="([^"]+)"></a>.*?<table><tbody>(.*?)</tbody>', re.DOTALL)
_CELL = re.compile(r"<th>(.*?):</th><td>(.*?)</td>", re.DOTALL)
JAVA_TIMEOUT_S = 120
_INTRODUCTION = """\
Written by `python -m broker.node.settings_page`; tests compare it with the code, and the names with those that Apache
Kafka 4.3.1 prints. *Honoured*: the broker or client acts on it. *Accepted without effect*: the note says why nothing
changes, and a broker or client warns of it when it starts. *Refused*: any value but Kafka's default is an error that
says so. Defaults are Kafka's; ours are named where they differ.

Order of values, as in Kafka: the topic's own, the broker's own dynamic one, the cluster-wide dynamic one, the
properties file, the default."""


_LIMITS_INTRODUCTION = """\
No request may keep a broker busy or fill its memory. What bounds it is known before anything is built from it; the
reasons stand beside the constants in the code."""


# Notes on settings that Apache Kafka does not have.
_OWN_NOTES: Final[Mapping[str, str]] = {
    "controlled.shutdown.max.wait.ms": "how long a stopping broker waits until the controller has moved its leaders",
    "harness.allow.remote": "other machines may connect to listeners without authentication; a line of the log names "
    "these listeners",
    "harness.clock.control": "memory-mapped file; its first int64, in ns, is added to each reading of the wall clock",
    "harness.cluster.id": "the cluster's id in Metadata",
    "harness.discard": "records are checked and acknowledged, but not stored: for the calibration of load generators",
    "harness.disk.faults": "control file of the storage: which calls fail, wait or lose their sync",
    "harness.journal.appends": "the journal also has a line for each append",
    "harness.journal.path": "file of the broker's journal of events; without it there is no journal",
    "harness.mutant": "a deliberately wrong variant of the broker ([mutants.md](mutants.md))",
    "harness.routes.controller": "`id@host:port,…`: the address, such as a proxy's, at which this node connects to a "
    "peer's controller listener",
    "harness.routes.internal": "the same for the listener between brokers",
    "harness.unread.answer.bytes": "memory for all answers that clients have not read yet; beyond it, the clients that "
    "have read nothing for the longest time are disconnected",
    "log.initial.task.delay.ms": "time from the start to the first round of retention",
}


def names_from_jars(jars: Path, classes: Mapping[str, str]) -> str:
    """The content of kafka_settings.tsv, or client_settings.tsv: scope, name, type, default."""
    lines: list[str] = []
    for scope, name in sorted(classes.items()):
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", name]
        printed = subprocess.run(command, capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=True).stdout
        for setting, table in _ITEM.findall(printed):
            cells = dict(_CELL.findall(table))
            # From "604800000 (7 days)" only the number is kept.
            default = re.sub(r" \(.*\)$", "", html.unescape(cells.get("Default", ""))).replace('""', "")
            lines.append("\t".join((scope, setting, cells.get("Type", ""), default)))
    return "".join(f"{line}\n" for line in sorted(lines))


def page() -> str:
    own = sorted(key for key in SETTINGS if key not in kafka_settings("broker"))
    return "\n".join(
        [
            "# Settings of topics, brokers and clients",
            "",
            *_INTRODUCTION.splitlines(),
            "",
            "## Topics",
            "",
            "| setting | default | effect | note |",
            "|---|---|---|---|",
            *_topic_rows(),
            "",
            "## Brokers",
            "",
            "| setting | default | effect | note |",
            "|---|---|---|---|",
            *_broker_rows(sorted(kafka_settings("broker"))),
            "",
            "## Brokers: settings that are not in Kafka's documentation",
            "",
            "| setting | default | effect | note |",
            "|---|---|---|---|",
            *_broker_rows(own),
            "",
            *_client_section("producer"),
            *_client_section("consumer"),
            "## Limits that are no settings",
            "",
            *_LIMITS_INTRODUCTION.splitlines(),
            "",
            "| limit | value | beyond it |",
            "|---|---|---|",
            *[f"| {name} | {value} | {beyond} |" for name, value, beyond in _limits()],
            "",
        ]
    )


def _limits() -> Iterable[tuple[str, str, str]]:
    closed = "the connection is closed, with a line in the log"
    yield "elements in all arrays of a request", f"{ELEMENTS_MAX:,}", closed
    for api_key, elements in sorted(ELEMENTS_MAX_OF.items()):
        yield f"the same, {ApiKey(api_key).name}", f"{elements:,}", closed
    peers = ", ".join(f"{ApiKey(key).name} {most:,}" for key, most in ELEMENTS_MAX_OF_PEERS.items())
    yield "the same, what brokers ask one another about many partitions", peers, closed
    yield "bytes of a string (as Kafka)", f"{STRING_BYTES_MAX:,}", f"{closed}; our own texts are cut"
    yield "new partitions in a request (as Kafka, with 10,000)", f"{PARTITIONS_MAX:,}", "POLICY_VIOLATION"
    yield "records in a batch of a producer", f"{RECORDS_MAX:,}", "MESSAGE_TOO_LARGE: producers split the batch"
    yield "headers of all records in a batch of a producer", f"{HEADERS_MAX:,}", "the same"
    most = f"(at most {DECOMPRESSED_BYTES_MAX >> 20} MiB)"
    unpacked = f"{UNPACKED_BYTES_MAX >> 20} MiB, or `max.message.bytes` if that is more {most}"
    yield "bytes that a batch unpacks to", unpacked, "MESSAGE_TOO_LARGE"
    yield "records named in the errors of a batch", f"{RECORD_ERRORS_MAX}", "the others are counted"
    yield "unanswered requests of a connection", f"{IN_FLIGHT_REQUESTS_MAX}", "it is not read until answers have left"
    yield "waiting Fetch requests of a client's connection", "1", "the same, as Kafka for every request"
    yield "unread answers of a connection", f"{ANSWERS_BYTES_MAX >> 10} KiB and one answer", "the same"
    ended = "those that have read nothing for the longest time are aborted, with a line in the log"
    yield "unread answers of all clients together", "`harness.unread.answer.bytes`", ended
    yield "unread answers to brokers", f"{PEER_UNREAD_BYTES_MAX >> 20} MiB", ended
    yield "arriving requests of brokers", f"{PEER_REQUEST_BYTES_MAX >> 20} MiB", "they wait"
    large = f"{ORDINARY_REQUEST_BYTES >> 20} MiB"
    yield f"requests above {large}", "three quarters of `queued.max.request.bytes`", "they wait, smaller ones do not"
    stalled = f"{STALLED_REQUEST_S:g} s without a byte, or {SLOW_REQUEST_S:g} s in all"
    yield "a request that others wait for", stalled, "its connection is aborted"
    files = f"half of `ulimit -n`, at least {FILE_DESCRIPTORS_MIN}"
    yield "descriptors kept for files", files, "connections are refused, with a line in the log"
    partitions = f"descriptors kept for files, less {OTHER_FILES}"
    yield "partitions of a cluster", partitions, "POLICY_VIOLATION"
    yield "handshakes of TLS under way, of a listener", f"{HANDSHAKES_MAX}", "the oldest one ends"
    yield "time of a handshake of TLS", f"{HANDSHAKE_TIMEOUT_S:g} s", "it ends"
    yield "connections kept for brokers", f"{PEER_CONNECTIONS}", "clients' are refused"


def _topic_rows() -> Iterable[str]:
    for name in sorted(TOPIC_SETTINGS):
        setting = TOPIC_SETTINGS[name]
        notes = [setting.note] if setting.note else []
        if setting.broker_key is not None:
            notes.append(f"broker: `{setting.broker_key}`")
        yield _row(name, _shown(setting.default), setting.effect, "; ".join(notes))


def _broker_rows(names: Iterable[str]) -> Iterable[str]:
    for name in names:
        support = support_of(name)
        assert support is not None, f"{name} is in no table: broker/node/settings/broker_settings.py"
        kafkas = kafka_settings("broker").get(name)
        notes = [note] if (note := support.note or _OWN_NOTES.get(name, "")) else []
        if name in DYNAMIC_BROKER_CONFIGS:
            notes.append("changes at run time")
        if name in COARSER_KEYS:
            notes.append("counts where the setting in ms is not given")
        default = "" if kafkas is None else kafkas.default
        ours = _our_default(SETTINGS.get(name))
        if ours is not None and _normal(ours) != _normal(default):
            notes.append(f"our default: {_shown(ours)}")
        yield _row(name, _shown(default), support.effect, "; ".join(notes))


def _client_section(scope: str) -> Iterable[str]:
    yield f"## {scope.capitalize()}s (`broker.client`)"
    yield ""
    yield "| setting | default | effect | note |"
    yield "|---|---|---|---|"
    own = (*settings_of(SCOPES[scope]), *settings_of(SecurityConfig))
    defaults = {property_name(each.name): each for each in own}
    for name, kafkas in sorted(kafka_client_settings(scope).items()):
        support = client_support_of(scope, name)
        assert support is not None, f"{name} is in no table: broker/client/client_settings.py"
        effect, note = support
        notes = [note] if note else []
        ours = _our_default(defaults.get(name))
        given = kafkas.default
        if ours is not None and ours != "" and _normal(ours) != _normal(given):
            notes.append(f"our default: {_shown(ours)}")
        yield f"| `{name}` | {_shown(given)} | {effect} | {'; '.join(notes)} |"
    yield ""


def _our_default(field: object) -> str | None:
    default = getattr(field, "default", None)
    if isinstance(default, bool):
        return str(default).lower()
    return str(default) if isinstance(default, int | float | str) else None


def _normal(text: str) -> str:
    try:
        return str(float(text))
    except ValueError:
        return text


def _shown(text: str) -> str:
    return f"`{text}`" if text else ""


def _row(name: str, default: str, effect: Effect, note: str) -> str:
    return f"| `{name}` | {default} | {effect.value} | {note} |"


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--jars"] and len(arguments) == 2:
        NAMES_FILE.write_text(names_from_jars(Path(arguments[1]), CLASSES))
        CLIENT_NAMES_FILE.write_text(names_from_jars(Path(arguments[1]), CLIENT_CLASSES))
        kafka_settings.cache_clear()
        kafka_client_settings.cache_clear()
    elif arguments:
        sys.stderr.write("usage: python -m broker.node.settings_page [--jars DIR]\n")
        return 2
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
