"""The documents below results/ are read back as they were written, by other versions too."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from runlog.files.documents import write_json
from runlog.records.codec import from_document, to_json
from runlog.records.comparison import ComparisonRecord
from runlog.records.confirmation import Confirmation, ConfirmationRecord, ConfirmationResult, ConfirmedAnalyses
from runlog.records.measurements import MEASUREMENTS_VERSION, Measurement, MeasurementsRecord
from runlog.records.results import (
    MeasurementsError,
    read_analysis_id,
    read_measurements,
    read_sweep,
    read_verdicts,
    results_directory,
    write_confirmation,
)
from runlog.records.sweep import PredictedFigure, SweepRecord
from runlog.records.verdicts import Result, VerdictsRecord

CELL = replace(
    from_document(Measurement, {"values": {"p99": 1.5}, "load": {"rate_per_s": 10}}), cell_id="a-r1", name="a"
)
MEASUREMENTS = MeasurementsRecord(schema_version=MEASUREMENTS_VERSION, analysis_id="f" * 16, cells=(CELL,))
CONFIRMATION = ConfirmationRecord(
    sweep="/runs/a", analyses=ConfirmedAnalyses(sweep="a", new="b"), cell="sweep-baseline", basis="one cluster",
    measures=(
        Confirmation(
            measure="p99", title="p99 latency", unit="ms", predicted=(8.0, None, 9.0), measured=None, repetitions=1,
            result=ConfirmationResult.UNKNOWN,
        ),
    ),
    compiler_us_per_record=None,
)  # fmt: skip


def written(run_dir: Path, name: str, document: object) -> None:
    results_directory(run_dir).mkdir(parents=True, exist_ok=True)
    (results_directory(run_dir) / name).write_text(json.dumps(document))


def test_a_confirmation_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_confirmation(tmp_path, CONFIRMATION)
    document = json.loads((results_directory(tmp_path) / "confirm.json").read_text())
    assert from_document(ConfirmationRecord, document) == CONFIRMATION
    assert document["measures"][0]["predicted"] == [8.0, None, 9.0]
    assert document["compiler_us_per_record"] is None


def test_measurements_are_read_as_they_were_written(tmp_path: Path) -> None:
    write_json(results_directory(tmp_path) / "measurements.json", to_json(MEASUREMENTS))
    assert read_measurements(tmp_path) == [CELL]
    assert read_analysis_id(tmp_path) == "f" * 16


def test_a_field_of_a_newer_version_and_a_missing_one_do_no_harm(tmp_path: Path) -> None:
    document = to_json(MEASUREMENTS)
    del document["analysis_id"], document["cells"][0]["fork"], document["cells"][0]["compiler_us_per_record"]
    document["cells"][0]["weather"] = {"clouds": 3}
    written(tmp_path, "measurements.json", document)
    assert read_measurements(tmp_path) == [CELL]
    assert read_analysis_id(tmp_path) == ""


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"schema_version": 99}, "schema version 99, expected 1"),
        ({"schema_version": 1}, "not the form of version 1"),
        ({"schema_version": 1, "cells": "none"}, "not the form of version 1"),
        ({"schema_version": 1, "cells": [{"title": "of no cell"}]}, "not the form of version 1"),
        ([], "holds no JSON object"),
    ],
)
def test_what_holds_no_measurements_is_refused(tmp_path: Path, document: object, problem: str) -> None:
    written(tmp_path, "measurements.json", document)
    with pytest.raises(MeasurementsError, match=problem):
        read_measurements(tmp_path)


def test_a_prediction_of_a_version_without_clusters_is_of_one(tmp_path: Path) -> None:
    figure = {"value": 8.0, "low": 7.0, "high": 9.0, "unit": "ms"}
    written(tmp_path, "sweep.json", {"recommendation": {"cell_id": "a-r1", "predicted": {"p99": figure}}})
    predicted = read_sweep(tmp_path).recommendation.predicted
    assert predicted is not None
    assert predicted["p99"] == from_document(PredictedFigure, figure)
    assert (predicted["p99"].forks, predicted["p99"].rounds, predicted["p99"].compiler) == (1, 1, None)


def test_what_a_damaged_file_does_not_tell_is_never_a_pass(tmp_path: Path) -> None:
    written(tmp_path, "verdicts.json", {"cells": [{"cell_id": "a", "verdict": "splendid"}], "verdict": 3})
    found = read_verdicts(tmp_path)
    assert (found.verdict, found.cells[0].verdict, found.exit_code) == (Result.INCONCLUSIVE, Result.INCONCLUSIVE, None)


@pytest.mark.parametrize("record", [VerdictsRecord, SweepRecord, ComparisonRecord, ConfirmationRecord])
def test_every_field_of_a_result_is_written_also_where_nothing_is_known(record: type) -> None:
    empty = from_document(record, {})
    assert from_document(record, to_json(empty)) == empty
    assert set(to_json(empty)) == {each.name for each in fields(record)}
