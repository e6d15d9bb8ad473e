"""What the sections of a broker's settings have in common: how a field is declared, and what a section refuses.

A field is one setting, under Kafka's name with underscores. Its type says how a text is read (values.py): a number is
at least 0. A field whose texts are read in another way names its parser: `setting(default, parser)`. The unit is the
last word of the name (ms, bytes, seconds, minutes), else the comment has it.
Shown by tests/broker_settings/test_settings_sections.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar

from broker.node.settings.values import text_of

PARSER: Final = "parser"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a broker cannot start with the values of a section. `keys`: the settings that are wrong together."""

    keys: tuple[str, ...]
    text: str
    implied_by: str = ""  # the setting to look at if none of `keys` is given


def setting(default: _T, parse: Callable[[str], _T]) -> _T:
    return field(default=default, metadata={PARSER: parse})


def key_of(field_name: str) -> str:
    return field_name.replace("_", ".")


def described(section: Any) -> dict[str, str]:
    """The settings of a section under their Kafka names. Any: dataclasses have no common type."""
    return {key_of(each.name): text_of(getattr(section, each.name)) for each in fields(section)}
