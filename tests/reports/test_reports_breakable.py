"""The test cases of a cell's JUnit suite are what this cell can break."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

from reports.evidence.configuration import Configuration, configuration_of
from reports.judge.anomalies import ANOMALIES
from reports.judge.anomaly import HISTORY, RECV, SHARES
from reports.judge.breakable import NEEDS, is_breakable
from reports.read.model import IdentitySet
from reports.render.junit import junit
from tests.reports.cells import make_cell
from tests.reports.overview_runs import figures
from tests.reports.sweep_facts import BASELINE, cell_facts, judged

OF_READERS_AND_MEMBERS = (RECV, HISTORY, SHARES)


def breakable(**workload: object) -> set[str]:
    cell = make_cell(cell_id="c", document={"topic": {"replication_factor": 1}, "workload": workload})
    return {one.name for one in ANOMALIES if is_breakable(one.name, cell, configuration_of(cell))}


def test_what_is_seen_in_readers_or_members_needs_some() -> None:
    named = {one.name for one in ANOMALIES if one.evidence.startswith(OF_READERS_AND_MEMBERS)}
    assert named - {"unread", "unseen_pending"} <= set(NEEDS)  # those two are no damage
    assert not breakable() & set(NEEDS)


def test_each_part_of_a_cell_brings_its_anomalies() -> None:
    alone = breakable()
    assert breakable(consumers=1) - alone == {
        "lost_in_delivery", "read_above_hw", "dup_delivered", "redelivered", "nonmonotonic_poll", "poll_skip",
    }  # fmt: skip
    group = breakable(readers=[{"name": "app", "mode": "group", "consumers": 2}])
    assert {"double_owner", "commit_regression"} <= group
    assert "dup_delivered" not in group, "a group may get a record again"
    copiers = breakable(readers=[{"name": "app", "mode": "group", "consumers": 2, "copies": True}])
    assert {"copy_missing", "torn_txn"} <= copiers - group
    assert {"share_lost"} <= breakable(readers=[{"name": "app", "mode": "share", "consumers": 2}]) - group


def test_what_the_settings_permit_or_exclude_is_no_test_case() -> None:
    cell = make_cell(cell_id="c", document={"topic": {"replication_factor": 3}})
    assert not is_breakable("acked_below_min_isr", cell, Configuration(acks="1"))
    assert is_breakable("acked_below_min_isr", cell, Configuration(acks="all", min_isr=2))
    assert not is_breakable("offset_reused", cell, Configuration(acks="1"))


def cases_of(xml: str) -> list[str]:
    (suite,) = ElementTree.fromstring(xml)
    assert suite.get("tests") == str(len(suite.findall("testcase")))
    return [str(case.get("name")) for case in suite.iterfind("testcase")]


def test_a_cell_has_a_case_for_what_it_can_break_and_for_what_was_seen() -> None:
    facts = cell_facts(BASELINE, p99_us=9_000, cell_id="a")
    calm = cases_of(junit(figures(judged([facts]))))
    assert len(calm) < 40, len(calm)
    assert "none in the wrong topic or partition" in calm
    assert "none copied twice" not in calm
    assert len({*calm}) == len(calm)
    odd = replace(facts, observed={**facts.observed, "copied_twice": IdentitySet(count=1)})
    assert "none copied twice" in cases_of(junit(figures(judged([odd])))), "what was seen is told, expected or not"
