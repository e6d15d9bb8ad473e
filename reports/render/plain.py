"""Text from outside in CSV, Markdown and XML: it stays plain text and has no meaning to the program that opens it.

Pure. Shown by tests/reports/test_reports_untrusted.py.
"""

from __future__ import annotations

import re

from runlog.files.strangers import clean_text

# With one of these a spreadsheet begins a formula; a tab or a carriage return may stand before it.
_FORMULA = re.compile(r"[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_MARKDOWN = re.compile(r"([\\`*_\[\]|~])")


def csv_cell(value: object) -> object:
    """A text that a spreadsheet would take for a formula gets an apostrophe before it; a number stays what it is."""
    if not isinstance(value, str):
        return value
    text = clean_text(value)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def markdown(text: object) -> str:
    """One line that stands for itself: in a table, a list or a heading."""
    line = " ".join(clean_text(str(text)).split())
    # An underscore between letters means nothing, and names are full of them.
    line = _MARKDOWN.sub(lambda match: _escaped(match, line), line)
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escaped(match: re.Match[str], line: str) -> str:
    before, after = line[: match.start()][-1:], line[match.end() :][:1]
    return "_" if match[0] == "_" and before.isalnum() and after.isalnum() else f"\\{match[0]}"


def fenced(lines: list[str]) -> list[str]:
    """A block of code that its contents cannot end."""
    text = clean_text("\n".join(lines))
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, *text.split("\n"), fence]
