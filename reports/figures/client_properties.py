"""A cell's settings as a client's configuration file: all settings, not only those that were swept. Pure.

Shown by tests/reports/test_reports_reading.py.
"""

from __future__ import annotations

from typing import Final

from reports.judge.judged import Judged

_ESCAPED: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def client_properties(item: Judged) -> str:
    """Lines NAME=VALUE as a Java properties file has them. What belongs to the topic stands in comments: a client's
    file cannot set it, and what acks=all promises depends on it."""
    record = item.facts.cell.record
    lines = [f"{name}={_value(value)}" for name, value in sorted(record.properties.items())]
    topic = {"replication.factor": record.topic.replication_factor, **dict(sorted(record.topic.config.items()))}
    told = [f"#   {name}={_value(str(value))}" for name, value in topic.items() if value is not None]
    return "\n".join([*lines, *(["# measured on a topic with", *told] if lines and told else [])])


def _value(text: str) -> str:
    escaped = "".join(_ESCAPED.get(letter, letter) for letter in text)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
