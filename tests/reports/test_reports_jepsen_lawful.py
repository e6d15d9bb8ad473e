"""What is lawful in a history, by transaction version and isolation; the page that says so is current."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from reports.evidence.configuration import Configuration
from reports.jepsen.anomalies import RULES, Case
from reports.jepsen.check import Checked, check
from reports.jepsen.lawful import ALWAYS, RULINGS, ruling_of
from reports.jepsen.operations import history_of
from reports.jepsen.page import render
from reports.jepsen.terms import SETTINGS, TermError, Terms, parse_pair, settings_of, terms_of
from reports.judge.lawful import LAWFUL, UNLAWFUL
from reports.judge.lawful import RULES as RECORD_RULES
from tests.reports import jepsen_histories as plants
from tests.reports.jepsen_histories import Book


def _terms(**told: str) -> Terms:
    return terms_of({name.replace("_", "."): value for name, value in told.items()})


NEWEST = _terms()
UNCOMMITTED = terms_of({"isolation.level": "read_uncommitted"})
VERSION_1 = terms_of({"transaction.version": "1"})


def _ruling(anomaly: str, terms: Terms, **about: object) -> str:
    case = Case(anomaly=anomaly, identity=(), words="", **about)  # type: ignore[arg-type]
    return ruling_of(case, terms).lawful


@pytest.mark.parametrize(
    ("anomaly", "about", "newest", "version_1", "uncommitted"),
    [
        ("G0", {"edges": ("ww",)}, LAWFUL, LAWFUL, LAWFUL),
        ("G1a", {"is_transaction": True}, UNLAWFUL, LAWFUL, LAWFUL),
        ("G1a", {"is_transaction": False}, UNLAWFUL, UNLAWFUL, LAWFUL),
        ("G1b", {"is_transaction": True}, LAWFUL, LAWFUL, LAWFUL),
        ("G1c", {"edges": ("wr",)}, UNLAWFUL, LAWFUL, LAWFUL),
        ("G1c", {"edges": ("wr", "ww")}, LAWFUL, LAWFUL, LAWFUL),
        ("precommitted-read", {"is_transaction": True}, UNLAWFUL, LAWFUL, LAWFUL),
        ("torn-txn", {"is_transaction": True, "is_acked": True}, UNLAWFUL, LAWFUL, UNLAWFUL),
        ("torn-txn", {"is_transaction": True, "is_acked": False}, UNLAWFUL, LAWFUL, LAWFUL),
        ("torn-txn", {"is_transaction": False, "is_acked": False}, LAWFUL, LAWFUL, LAWFUL),
        ("torn-txn", {"is_transaction": False, "is_acked": True}, UNLAWFUL, UNLAWFUL, UNLAWFUL),
        ("lost-write", {"is_transaction": True, "is_acked": True}, UNLAWFUL, LAWFUL, UNLAWFUL),
        ("lost-write", {"is_transaction": False, "is_acked": True}, UNLAWFUL, UNLAWFUL, UNLAWFUL),
        ("lost-write", {"is_transaction": True, "is_acked": False}, UNLAWFUL, LAWFUL, LAWFUL),
        ("duplicate", {"is_transaction": True}, UNLAWFUL, UNLAWFUL, UNLAWFUL),
        ("duplicate", {"is_transaction": False}, UNLAWFUL, UNLAWFUL, UNLAWFUL),
        ("inconsistent-offsets", {}, UNLAWFUL, UNLAWFUL, UNLAWFUL),
        ("unexpected-read", {}, UNLAWFUL, UNLAWFUL, UNLAWFUL),
        ("unseen", {}, LAWFUL, LAWFUL, LAWFUL),
        ("poll-skip", {"is_subscribed": False}, UNLAWFUL, UNLAWFUL, UNLAWFUL),
        ("poll-skip", {"is_subscribed": True}, LAWFUL, LAWFUL, LAWFUL),
        ("nonmonotonic-poll", {"is_subscribed": False}, UNLAWFUL, UNLAWFUL, UNLAWFUL),
        ("nonmonotonic-poll", {"is_subscribed": True}, LAWFUL, LAWFUL, LAWFUL),
        ("int-poll-skip", {"is_subscribed": True}, UNLAWFUL, UNLAWFUL, UNLAWFUL),
        ("int-nonmonotonic-poll", {"is_subscribed": True}, UNLAWFUL, UNLAWFUL, UNLAWFUL),
        ("nonmonotonic-send", {}, UNLAWFUL, UNLAWFUL, UNLAWFUL),
        ("int-nonmonotonic-send", {"is_transaction": True}, UNLAWFUL, UNLAWFUL, UNLAWFUL),
        ("int-send-skip", {"is_transaction": True}, LAWFUL, LAWFUL, LAWFUL),
    ],
)
def test_what_is_lawful_by_version_and_isolation(
    anomaly: str, about: dict[str, object], newest: str, version_1: str, uncommitted: str
) -> None:
    told = [_ruling(anomaly, terms, **about) for terms in (NEWEST, VERSION_1, UNCOMMITTED)]
    assert told == [newest, version_1, uncommitted]


def test_settings_of_producers_and_topics_decide_as_in_the_report_of_a_run() -> None:
    assert _ruling("lost-write", terms_of({"acks": "1"}), is_acked=True) == LAWFUL
    assert _ruling("lost-write", terms_of({"unclean.leader.election.enable": "true"}), is_acked=True) == LAWFUL
    assert _ruling("duplicate", terms_of({"enable.idempotence": "false"})) == LAWFUL
    assert _ruling("duplicate", terms_of({"enable.idempotence": "false", "retries": "0"})) == UNLAWFUL
    assert _ruling("inconsistent-offsets", terms_of({"acks": "1"})) == LAWFUL
    assert _ruling("int-nonmonotonic-send", terms_of({"enable.idempotence": "false"})) == LAWFUL
    assert _ruling("nonmonotonic-poll", terms_of({"truncated": "true"})) == LAWFUL


def test_every_anomaly_has_rulings_that_end_with_one_for_all_and_name_rules_that_exist() -> None:
    assert set(RULINGS) == set(RULES)
    for clauses in RULINGS.values():
        assert clauses[-1].condition is ALWAYS
        assert all(clause.condition is not ALWAYS for clause in clauses[:-1]), "what comes after it would never count"
        assert all(clause.ruling in RECORD_RULES for clause in clauses if isinstance(clause.ruling, str))


def _checked(plant: object, terms: Terms) -> Checked:
    book = Book(random.Random(3))
    plant(book)  # type: ignore[operator]
    return check(history_of(book.lines), terms)


def test_cases_of_one_anomaly_are_told_apart_where_the_rules_tell_them_apart() -> None:
    """A cycle of reads alone is unlawful, one that needs a write before a write is not."""
    book = Book(random.Random(1))
    plants.ring(book, ["wr", "wr"])
    plants.ring(book, ["ww", "wr"])
    found = check(history_of(book.lines), NEWEST).found
    assert [(item.anomaly, item.is_lawful, len(item.cases)) for item in found] == [("G1c", False, 1), ("G1c", True, 1)]


def test_planted_histories_are_lawful_or_not_as_a_whole() -> None:
    assert not _checked(plants.aborted_read, NEWEST).is_lawful
    assert _checked(plants.aborted_read, UNCOMMITTED).is_lawful
    assert _checked(plants.write_cycle, NEWEST).is_lawful
    assert _checked(plants.intermediate_read, NEWEST).is_lawful
    assert not _checked(plants.read_cycle, NEWEST).is_lawful
    assert _checked(plants.read_cycle, VERSION_1).is_lawful


def test_settings_are_the_same_after_they_were_text() -> None:
    for configuration in (Configuration(), Configuration(acks="1", idempotence=True, retries=0, lost_power=True)):
        for version in (0, 1, 2):
            terms = terms_of(settings_of(configuration, "read_uncommitted", version))
            assert terms == Terms(configuration=configuration, reads_uncommitted=True, transaction_version=version)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("acks", "'acks'; expected NAME=VALUE"),
        ("isolation=x", "'isolation' is no setting of a history; did you mean isolation.level?"),
        ("zzz=x", "'zzz' is no setting of a history; expected one of isolation.level, "),
    ],
)
def test_a_setting_that_is_unknown_is_refused(pair: str, message: str) -> None:
    with pytest.raises(TermError) as caught:
        parse_pair(pair)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("isolation.level", "read_comitted", "expected read_committed or read_uncommitted; read_committed?"),
        ("transaction.version", "3", "transaction.version=3: expected 0, 1 or 2"),
        ("acks", "2", "acks=2: expected all, 1 or 0"),
        ("retries", "-1", "retries=-1: expected a whole number from 0 on"),
        ("enable.idempotence", "yes", "enable.idempotence=yes: expected true or false"),
    ],
)
def test_a_value_that_cannot_be_is_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(TermError) as caught:
        terms_of({name: value})
    assert message in str(caught.value)


def test_every_setting_has_a_default_that_it_can_have() -> None:
    assert terms_of({}) == terms_of({setting.name: setting.default for setting in SETTINGS})


def test_the_page_is_current() -> None:
    assert (Path(__file__).parents[2] / "docs" / "reference" / "histories.md").read_text() == render()
