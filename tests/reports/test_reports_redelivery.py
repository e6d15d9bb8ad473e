"""Duplicates before and after removal, as the report says them."""

from __future__ import annotations

from reports.figures.redelivery import redelivery_sentences
from runlog.records.codec import from_document
from runlog.records.load import Health


def test_each_reader_that_removes_duplicates_has_a_sentence() -> None:
    health = {
        "cpu_share": 0.5,
        "redelivery_once-a_records": 1200,
        "redelivery_once-a_handed_on": 1150,
        "redelivery_once-a_duplicates_before": 50,
        "redelivery_once-a_duplicates_after": 0,
        "redelivery_once-a_wrongly_removed": 0,
        "redelivery_b_records": 9,
        "redelivery_b_wrongly_removed": 2,
        "redelivery_b_not_judged": 3,
    }
    b, once = redelivery_sentences(from_document(Health, health))
    assert once == (
        "Reader once-a got 1,200 records, 50 of them again; after removal it handed on 1,150, 0 of them again."
    )
    assert "2 were removed although they had never been handed on" in b
    assert "3 came after the memory of the count was full" in b


def test_without_such_readers_nothing_is_said() -> None:
    assert redelivery_sentences(from_document(Health, {"cpu_share": 0.5, "stages": {}})) == []
