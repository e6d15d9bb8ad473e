"""The broker's journal and the records of cluster.jsonl name the same kinds and fields."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import pytest

from broker.log.compaction import CompactionResult
from broker.log.recovery import RecoverySummary
from broker.log.retention import Expiry, RetentionResult
from runlog.records.codec import to_json
from runlog.records.lines import CLUSTER
from runlog.records.partition import LogCompacted, LogRecovered, LogStartAdvance, SegmentsDeleted

NODE = Path(__file__).parents[2] / "broker" / "node"


def _journalled() -> list[tuple[str, frozenset[str]]]:
    """(kind, fields that are named in the call) of each call of the journal's write() with a constant kind."""
    found = []
    for path in sorted(NODE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "write":
                continue
            owner = ast.unparse(node.func.value)
            if not (owner.endswith("journal") or (path.name == "journal.py" and owner == "self")):
                continue
            if node.args and isinstance(node.args[0], ast.Constant):
                names = frozenset(keyword.arg for keyword in node.keywords if keyword.arg is not None)
                found.append((str(node.args[0].value), names))
    return found


@pytest.mark.thorough
def test_each_kind_of_the_journal_has_a_record_with_its_fields() -> None:
    found = _journalled()
    assert len({kind for kind, _ in found}) > 15
    unknown = [
        (kind, sorted(missing))
        for kind, names in found
        if (missing := names - {field.name for field in dataclasses.fields(CLUSTER.types[kind])})
    ]
    assert unknown == []


@pytest.mark.parametrize(
    ("record", "source"),
    [
        (LogRecovered, RecoverySummary),
        (LogCompacted, CompactionResult),
        (SegmentsDeleted, RetentionResult),
        (LogStartAdvance, Expiry),
    ],
)
def test_what_the_journal_takes_whole_from_the_log_is_in_the_record(record: type, source: type) -> None:
    assert {field.name for field in dataclasses.fields(source)} <= {field.name for field in dataclasses.fields(record)}


@pytest.mark.parametrize("kind", sorted(CLUSTER.types))
def test_a_line_of_each_kind_comes_back_as_it_was(kind: str) -> None:
    record_type = CLUSTER.types[kind]
    sample = {
        "kind": kind,
        "source": "journal",
        "isr": [1],
        "brokers": [1, 2],
        "partitions": [["t", 0]],
        "expired": [[9, 1]],
    }
    line = {}
    for field in dataclasses.fields(record_type):
        hint = str(field.type)
        line[field.name] = sample.get(field.name, "x" if "str" in hint else True if "bool" in hint else 7)
    line["kind"] = kind
    assert to_json(CLUSTER.record(line)) == line
