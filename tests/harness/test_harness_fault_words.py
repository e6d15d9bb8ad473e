"""Every fault and every parameter is explained, the page is what the words say, and each example step is a step."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from chaos.faults import FAULTS
from chaos.step import Step
from harness.cli.main import execute
from harness.cli.suites.fault_words import fault_lines, page, parameter_words, step_example
from harness.errors import ExitCode

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "faults.md"


def test_each_fault_and_its_parameters_are_explained() -> None:
    for name, spec in FAULTS.items():
        text = "\n".join(fault_lines(name))
        assert text.startswith(f"{name}: ")
        for parameter in spec.parameters:
            assert parameter_words(name, parameter) in text, name
        (step,) = YAML(typ="safe").load(step_example(spec))
        assert Step.model_validate(step).fault == name


def test_the_page_is_what_the_words_say() -> None:
    assert PAGE.read_text() == page(), "python -m harness.cli.suites.fault_words > docs/reference/faults.md"


def test_list_faults_explains_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["list", "faults", "latency"]) == ExitCode.PASS
    out = capsys.readouterr().out
    assert "latency_ms (default 100)" in out
    assert execute(["list", "faults", "latncy"]) == ExitCode.USAGE
    assert "did you mean 'latency'?" in capsys.readouterr().err
    assert execute(["list", "suites", "demo"]) == ExitCode.USAGE
