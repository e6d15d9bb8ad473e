"""results/verdicts.json keeps to its published schema, and the schema is closed: an untold figure would fail here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from harness.cli.main import execute
from harness.errors import ExitCode
from reports.figures.figures import figures_of
from reports.judge.judged import Judged
from reports.judge.verdict import judge
from reports.read.model import LATENCY_KINDS, SET_KINDS, IdentityRange, IdentitySet, Latency
from reports.render.results import write_results
from reports.render.results_schema import verdicts_schema
from reports.render.verdicts_json import verdicts_record
from runlog.records.codec import to_json
from tests.reports.cells import make_run
from tests.reports.conftest import Planted
from tests.reports.test_reports_verdict import comparison, facts


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(verdicts_schema())
    return jsonschema.Draft202012Validator(verdicts_schema())


def document(directory: Path) -> dict[str, Any]:
    one = IdentitySet(count=1, hash=-5, ranges=(IdentityRange(producer=0, incarnation=0, first_seq=7, last_seq=7),))
    found = facts(sets={"lost": comparison(both=3)}, observed={kind: one for kind in SET_KINDS})
    for kind in LATENCY_KINDS:
        found.latency[kind] = Latency()  # type: ignore[index]
    run = make_run(
        directory=str(directory), manifest={"run_id": "r", "engine": "reference", "seed": 1}, cells=(found.cell,)
    )
    write_results(figures_of(run, [Judged(facts=found, verdict=judge(found))]), directory)
    loaded: dict[str, Any] = json.loads((directory / "results" / "verdicts.json").read_text())
    return loaded


def test_what_is_written_keeps_to_the_schema(tmp_path: Path, validator: jsonschema.Draft202012Validator) -> None:
    validator.validate(document(tmp_path))


@pytest.mark.parametrize("path", [("cells", 0), ("cells", 0, "latency_us", "corrected"), ("run",), ()])
def test_a_figure_more_or_less_is_a_difference(
    tmp_path: Path, validator: jsonschema.Draft202012Validator, path: tuple[str | int, ...]
) -> None:
    written = document(tmp_path)
    place: Any = written
    for step in path:
        place = place[step]
    place["new"] = 1
    assert "'new' was unexpected" in next(validator.iter_errors(written)).message
    del place["new"]
    del place[next(iter(place))]
    assert "is a required property" in next(validator.iter_errors(written)).message


@pytest.mark.spark
def test_a_real_analysis_keeps_to_the_schema(planted: Planted, validator: jsonschema.Draft202012Validator) -> None:
    judged = [Judged(facts=item, verdict=judge(item)) for item in planted.facts]
    validator.validate(json.loads(json.dumps(to_json(verdicts_record(figures_of(planted.run, judged))))))


def test_the_schema_is_printed_by_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["schema", "verdicts"]) == ExitCode.PASS
    assert json.loads(capsys.readouterr().out) == verdicts_schema()
