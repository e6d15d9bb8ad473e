"""Finds settings of topics and brokers that Kafka does not have, before anything is started.

Apache Kafka ignores a broker setting that it does not know, with a warning in its log. So a misspelt one can go
unnoticed for a whole benchmark. Names and types are those of Kafka 4.3 (broker/kafka_settings.tsv). An external cluster
is not checked, because it may know more settings. Pure. Shown by tests/harness/test_harness_settings.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.door.reference import kafka_settings
from runlog.files.nearest import nearest_name

OWN: Final = "harness."  # settings that only the reference broker has


def settings_problem(scope: str, settings: Mapping[str, str]) -> str:
    """What is wrong with the first wrong one of `topic` or `broker`; empty if nothing."""
    known = kafka_settings(scope)
    for name, value in settings.items():
        if name.startswith(OWN):
            continue
        setting = known.get(name)
        if setting is None:
            near = nearest_name(name, known)
            advice = f"; did you mean {near!r}?" if near else "; docs/reference/settings.md has them all"
            return f"Kafka has no {scope} setting {name!r}{advice}"
        if not setting.accepts(str(value).strip()):
            return f"{scope} setting {name!r}: expected {setting.kind}, got {value!r}"
    return ""
