"""Sentences about readers that remove redelivered records: duplicates before and after the removal. Pure.

The load process counts them against an exact memory of identities (workloads/redelivery.py) and puts the figures in the
cell's health. Shown by tests/reports/test_reports_redelivery.py.
"""

from __future__ import annotations

from runlog.records.load import Health, Redelivery


def redelivery_sentences(health: Health) -> list[str]:
    return [_sentence(reader, found) for reader, found in health.redeliveries.items()]


def _sentence(reader: str, found: Redelivery) -> str:
    text = (
        f"Reader {reader} got {found.records:,} records, {found.duplicates_before:,} of them again; "
        f"after removal it handed on {found.handed_on:,}, {found.duplicates_after:,} of them again."
    )
    if found.wrongly_removed:
        text += f" {found.wrongly_removed:,} were removed although they had never been handed on."
    if found.not_judged:
        text += f" {found.not_judged:,} came after the memory of the count was full and are in no figure."
    return text
