"""How the page writes figures: numbers, milliseconds, percent; and text that is safe inside a script element."""

from __future__ import annotations

import json
import math

from markupsafe import Markup

from reports.judge.figure import Column, Form

SIGNS = {"pass": "✓", "fail": "✗", "inconclusive": "?"}


# How the page names a ruling of `judge/lawful.py` where it tells rules, and nothing has happened yet.
RULES = {"lawful": "allowed", "unlawful": "would break a promise", "impossible": "cannot happen"}


def in_rules(lawful: str) -> str:
    return RULES[lawful]


def script_safe(text: str) -> str:
    """Nothing inside a script element may look like its end or like a comment's start."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def json_text(value: object) -> Markup:
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def number(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


NOT_REACHED = "not reached"  # a percentile that falls on records which never came


def ms(value: float | None) -> str:
    """Microseconds as milliseconds, three significant digits."""
    if value is None:
        return "–"
    if math.isinf(value):
        return NOT_REACHED
    milliseconds = value / 1000
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


def percent(value: float | None) -> str:
    return "–" if value is None else f"{value * 100:.0f} %"


def in_form(value: float, column: Column) -> str:
    """As the page's table of cells has it."""
    if column.form is Form.NUMBER:
        return number(value, column.digits)
    return {Form.THREE_DIGITS: three_digits, Form.PERCENT: percent, Form.MS: ms}[column.form](value)


def is_endless(value: float) -> bool:
    return math.isinf(value)


def seconds(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}"


def three_digits(value: float | None) -> str:
    """Three digits, all of those before the point."""
    if value is None:
        return "–"
    if math.isinf(value):
        return NOT_REACHED
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"
