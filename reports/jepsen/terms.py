"""What a history was made with, as far as it decides what is lawful. By Kafka's names.

A history of a run of ours tells it itself (`Action.SETTINGS`). For others the user tells it (`--set`), and what nobody
tells has the value that demands most. Shown by tests/reports/test_reports_jepsen_lawful.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reports.evidence.configuration import Configuration
from reports.jepsen.edn import Form
from runlog.files.nearest import nearest_name

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
ISOLATION, VERSION = "isolation.level", "transaction.version"
TRANSACTION_VERSION_MAX: Final = 2
_COUNT_MAX: Final = 1 << 31


class TermError(ValueError):
    """A setting that is unknown, or a value that it cannot have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    configuration: Configuration
    reads_uncommitted: bool
    transaction_version: int  # 0 or 1: a producer keeps its epoch; 2: a new one after each transaction (KIP-890)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    name: str
    default: str
    field: str  # of Configuration; empty: Terms has it
    read: Callable[[str], Any]  # ValueError for what it cannot be; bool, int and str differ by setting
    about: str


def _switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("expected true or false")
    return text == "true"


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 10 or int(text) >= _COUNT_MAX:
        raise ValueError("expected a whole number from 0 on")
    return int(text)


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in words:
            near = nearest_name(text, words)
            raise ValueError(f"expected {', '.join(words[:-1])} or {words[-1]}" + (f"; {near}?" if near else ""))
        return text

    return read


def _acks(text: str) -> str:
    return "all" if text == "-1" else _one_of("all", "1", "0")(text)


def _version(text: str) -> int:
    return int(_one_of(*map(str, range(TRANSACTION_VERSION_MAX + 1)))(text))


SETTINGS: Final = (
    Setting(name=ISOLATION, default=READ_COMMITTED, field="", read=_one_of(READ_COMMITTED, READ_UNCOMMITTED),
            about="of all readers"),
    Setting(name=VERSION, default=str(TRANSACTION_VERSION_MAX), field="", read=_version,
            about="0, 1 or 2: what producers and brokers agreed on"),
    Setting(name="acks", default="all", field="acks", read=_acks, about="all, 1 or 0"),
    Setting(name="enable.idempotence", default="true", field="idempotence", read=_switch, about="of all producers"),
    Setting(name="retries", default="2147483647", field="retries", read=_count, about="of all producers"),
    Setting(name="max.in.flight.requests.per.connection", default="5", field="max_in_flight", read=_count,
            about="of all producers"),
    Setting(name="replication.factor", default="3", field="replication_factor", read=_count, about="of all topics"),
    Setting(name="min.insync.replicas", default="2", field="min_isr", read=_count, about="of all topics"),
    Setting(name="unclean.leader.election.enable", default="false", field="unclean_election", read=_switch,
            about="of all topics"),
    Setting(name="flushes.each", default="true", field="flushes_each", read=_switch,
            about="false, if flush.messages is not 1"),
    Setting(name="lost.power", default="false", field="lost_power", read=_switch,
            about="a disk lost what was not fsynced"),
    Setting(name="truncated", default="false", field="truncated", read=_switch, about="a replica cut its log back"),
    Setting(name="topic.recreated", default="false", field="topic_recreated", read=_switch,
            about="somebody deleted a topic and created it again"),
    Setting(name="commits.first", default="false", field="commits_first", read=_switch,
            about="a reader commits ahead of its processing"),
)  # fmt: skip
_BY_NAME: Final = {setting.name: setting for setting in SETTINGS}


def parse_pair(text: str) -> tuple[str, str]:
    """NAME=VALUE of the command line. TermError if it is none, or if there is no such setting."""
    name, equals, value = text.partition("=")
    if not equals:
        raise TermError(f"{text!r}; expected NAME=VALUE, e.g. {ISOLATION}={READ_UNCOMMITTED}")
    if name not in _BY_NAME:
        near = nearest_name(name, _BY_NAME)
        known = f"did you mean {near}?" if near else f"expected one of {', '.join(_BY_NAME)}"
        raise TermError(f"{name!r} is no setting of a history; {known}")
    return name, value


def told_settings(settings: Mapping[str, Form]) -> dict[str, str]:
    """The settings that a history of ours tells. What else stands there is not about what is lawful."""
    return {name: value for name, value in settings.items() if name in _BY_NAME and isinstance(value, str)}


def terms_of(told: Mapping[str, str]) -> Terms:
    """TermError for a value that the setting cannot have. Names must be known."""
    values: dict[str, Any] = {}  # bool, int and str differ by setting
    for setting in SETTINGS:
        text = told.get(setting.name, setting.default)
        try:
            values[setting.name] = setting.read(text)
        except ValueError as error:
            raise TermError(f"{setting.name}={text}: {error}") from None
    return Terms(
        configuration=Configuration(**{item.field: values[item.name] for item in SETTINGS if item.field}),
        reads_uncommitted=values[ISOLATION] == READ_UNCOMMITTED,
        transaction_version=values[VERSION],
    )


def settings_of(configuration: Configuration, isolation: str, transaction_version: int) -> dict[str, str]:
    """The same as text, for a history that is written: `terms_of` gives the terms again."""
    told = {ISOLATION: isolation, VERSION: str(transaction_version)}
    for setting in SETTINGS:
        if setting.field:
            value = getattr(configuration, setting.field)
            told[setting.name] = str(value).lower() if isinstance(value, bool) else str(value)
    return told
