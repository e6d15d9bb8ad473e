"""Settings are spelled as Kafka's properties are, the same in suites, scenarios and on the command line."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from chaos.fields import Settings
from harness.suite import KafkaSettings
from runlog.files.setting_text import setting_text


class _Both(BaseModel):
    of_suite: KafkaSettings
    of_scenario: Settings


@pytest.mark.parametrize(
    ("value", "text"), [(5.0, "5"), (0.5, "0.5"), (True, "true"), (16384, "16384"), ("5.0", "5.0"), (-1, "-1")]
)
def test_a_value_has_one_spelling(value: Any, text: str) -> None:
    assert setting_text(value) == text
    both = _Both.model_validate({"of_suite": {"a": value}, "of_scenario": {"a": value}})
    assert both.of_suite == both.of_scenario == {"a": text}


@pytest.mark.parametrize("value", [None, [5], {"a": 1}])
def test_what_is_no_scalar_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="expected a text, number or boolean"):
        setting_text(value)
