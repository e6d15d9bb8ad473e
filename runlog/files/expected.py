"""The expected value, in our words instead of pydantic's. Pure.

An error of pydantic is a mapping with `type`, `msg`, `ctx` and `input`. Shown by tests/runlog/test_runlog_expected.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runlog.files.nearest import nearest_name

_WORDS: Final[Mapping[str, str]] = {
    "int_parsing": "expected a whole number", "int_type": "expected a whole number",
    "int_from_float": "expected a whole number", "int_parsing_size": "expected a whole number of fewer digits",
    "float_parsing": "expected a number", "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "bool_parsing": "expected true or false", "bool_type": "expected true or false",
    "string_type": "expected a text", "list_type": "expected a list", "tuple_type": "expected a list",
    "set_type": "expected a list", "dict_type": "expected a mapping of keys",
    "model_type": "expected a mapping of keys", "model_attributes_type": "expected a mapping of keys",
    "missing": "this key is required", "none_required": "expected nothing",
    "greater_than": "expected more than {gt}", "greater_than_equal": "expected {ge} or more",
    "less_than": "expected less than {lt}", "less_than_equal": "expected {le} or less",
    "string_too_short": "expected at least {min_length} characters",
    "string_too_long": "expected at most {max_length} characters",
    "too_short": "expected at least {min_length}, got {actual_length}",
    "too_long": "expected at most {max_length}, got {actual_length}",
    "string_pattern_mismatch": "expected a text that matches {pattern}",
    "literal_error": "expected {expected}", "enum": "expected {expected}",
    "union_tag_invalid": "{discriminator} is {tag!r}; expected one of {expected_tags}",
    "union_tag_not_found": "expected a mapping with the key {discriminator}",
}  # fmt: skip
_CHOICES: Final = {"literal_error": "expected", "enum": "expected", "union_tag_invalid": "expected_tags"}


def expectation(detail: Mapping[str, Any]) -> str:
    """What was expected, with the nearest choice. Sentences of our own validators are not changed."""
    context = detail.get("ctx") or {}
    words = _WORDS.get(str(detail["type"]))
    if words is None:
        return str(detail["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return words.format_map(context) + _nearest(str(detail["type"]), detail, context)


def _nearest(kind: str, detail: Mapping[str, Any], context: Mapping[str, Any]) -> str:
    got = context.get("tag", detail.get("input"))
    if kind not in _CHOICES or not isinstance(got, str):
        return ""
    choices = str(context[_CHOICES[kind]]).replace(" or ", ", ").split(", ")
    near = nearest_name(got, [one.strip("'") for one in choices])
    return f"; did you mean {near!r}?" if near else ""
