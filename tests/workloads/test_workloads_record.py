"""What cell.json holds of a workload is the whole of it."""

from __future__ import annotations

import pytest

from runlog.records.codec import from_document, to_json
from runlog.records.workload import WorkloadRecord
from workloads.model import Workload


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sizes": {"kind": "uniform", "low_bytes": 50, "high_bytes": 99}, "keys": "zipf"},
        {"locust": {"file": "locustfile.py", "users": 5}},
        {"corpus": "bodies.txt", "schedule": {"kind": "replay", "times_ms": [1, 2]}},
        {"readers": [{"name": "late", "start_after_ms": 4, "deduplicate": "redis"}], "topics": 2},
        {
            "schedule": {"kind": "closed", "outstanding": 3},
            "readers": [
                {"name": "copier", "mode": "group", "own_processes": True, "copies": True, "properties": {"a.b": 1}},
                {"name": "audit", "mode": "group", "own_processes": True, "reads": "copies", "commit": "after"},
            ],
        },
    ],
)
def test_the_record_of_a_workload_has_every_setting(settings: dict[str, object]) -> None:
    document = Workload.model_validate({"rate_per_s": 100, **settings}).model_dump(mode="json")
    record = from_document(WorkloadRecord, document)
    assert to_json(record) == document
    assert len(record.reader_groups) == len(document["readers"])
