"""A setting's value as text, as Kafka's properties have it. Pure. Shown by tests/runlog/test_runlog_setting_text.py."""

from __future__ import annotations


def setting_text(value: object) -> str:
    """A YAML scalar in Kafka's spelling: true/false in lower case, whole floats without a point. ValueError for what is
    no scalar."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("expected a text, number or boolean")
