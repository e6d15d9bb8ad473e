"""Tables for a terminal of any width and for a pipe. Nothing is ever cut. Pure.

If a terminal is too narrow, the columns that are marked as spare are left out first. After that a row takes several
lines. A pipe has no width: each row is one line with all columns, so that programs can read them. Sentences are wrapped
there too. Shown by tests/harness/test_harness_widths.py.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Final

from harness.terminal.operator_log import write_if_possible

_GAP: Final = "  "
_INDENT: Final = "    "
PIPE_WIDTH: Final = 120  # width of sentences if the terminal's width is not known, as in logs of CI
_WIDTH_DEFAULT: Final = 80  # A terminal that does not tell its width has this one.
_WRAPPED_MIN: Final = 24  # a text column that is narrower than this is hard to read


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    heading: str
    is_figure: bool = False  # aligned to the right, and never wrapped
    is_text: bool = False  # a sentence, which may be wrapped
    spare: int = 0  # left out in this order, from 1, if there is too little room; 0: never


def stdout_width() -> int | None:
    """Width of the terminal (COLUMNS counts first). None for a pipe or a file."""
    return width_of(sys.stdout)


def width_of(stream: IO[str]) -> int | None:
    """The width of this stream's terminal, which may not be that of stdout. None for a pipe or a file."""
    if not stream.isatty():
        return None
    if os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size().columns
    try:
        return os.get_terminal_size(stream.fileno()).columns or _WIDTH_DEFAULT
    except (OSError, ValueError):  # it says that it is a terminal, and has no descriptor
        return _WIDTH_DEFAULT


def print_fitting(text: str, *, to_stderr: bool = False, hanging: int = 0) -> None:
    """Lines for people, as wide as their terminal. Further lines are indented by `hanging`. A word that is longer
    than the terminal (a path, an address) stays whole, so that it can be copied. Nobody has to read stderr."""
    if to_stderr:
        write_if_possible(sys.stderr, fitting(text, sys.stderr, hanging=hanging) + "\n")
    else:
        print(fitting(text, sys.stdout, hanging=hanging), flush=True)


def fitting(text: str, stream: IO[str], *, hanging: int = 0) -> str:
    """The text as `print_fitting` writes it to this stream."""
    width = width_of(stream)
    return "\n".join(part for line in text.split("\n") for part in _fitted(line, width, hanging))


def _fitted(text: str, width: int | None, hanging: int) -> list[str]:
    if width is None or len(text) <= width or not text.strip():
        return [text]
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.wrap(
        text.strip(), width, initial_indent=indent, subsequent_indent=" " * max(hanging, len(indent)),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """The lines of a table, with a line of headings. If `width` is None, lines may have any length."""
    spare = sorted({column.spare for column in columns} - {0})
    for left_out in range(len(spare) + 1):
        gone = set(spare[:left_out])
        kept = [index for index, column in enumerate(columns) if column.spare not in gone]
        some = [columns[index] for index in kept]
        picked = [[row[index] for index in kept] for row in rows]
        lines = _one_line_each(some, picked)
        if width is None or max(map(len, lines)) <= width:
            return lines
    assert width is not None
    return _last_wrapped(columns, rows, width) or _texts_below(columns, rows, width) or _stacked(columns, rows, width)


def wrapped_line(text: str, width: int | None) -> list[str]:
    """A line of a paragraph or an indented item. Its further lines are indented a little more."""
    indent = " " * (len(text) - len(text.lstrip()))
    if width is None or len(text) <= width or not text.strip():
        return [text]
    further = f"{indent}  " if indent else ""
    return textwrap.wrap(text.strip(), width, initial_indent=indent, subsequent_indent=further, break_on_hyphens=False)


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(text) for text in (column.heading, *(row[i] for row in rows))) for i, column in enumerate(columns)]


def _line(columns: Sequence[Column], widths: Sequence[int], row: Sequence[str]) -> str:
    parts = [
        text.rjust(size) if column.is_figure else text.ljust(size)
        for column, size, text in zip(columns, widths, row, strict=True)
    ]
    return _GAP.join(parts).rstrip()


def _one_line_each(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = _widths(columns, rows)
    headings = [column.heading for column in columns]
    return [_line(columns, widths, row) for row in (headings, *rows)]


def _last_wrapped(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """If only the last column is text, it is wrapped in its own width. [] if too little room is left for it."""
    if not columns[-1].is_text or any(column.is_text for column in columns[:-1]):
        return []
    before, widths = columns[:-1], _widths(columns, rows)[:-1]
    indent = sum(widths) + len(_GAP) * len(widths)
    if width - indent < _WRAPPED_MIN:
        return []
    lines = []
    for row in ([column.heading for column in columns], *rows):
        wrapped = _wrapped(row[-1], width - indent)
        lines.append((_line(before, widths, row[:-1]).ljust(indent) + wrapped[0]).rstrip())
        lines += [" " * indent + more for more in wrapped[1:]]
    return lines


def _texts_below(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """A line for each row, and below it what texts it has. [] if even the figures alone do not fit beside the name."""
    kept = [i for i, column in enumerate(columns) if not column.is_text and not column.spare]
    some = [columns[i] for i in kept]
    lines = _one_line_each(some, [[row[i] for i in kept] for row in rows])
    if max(map(len, lines)) > width:
        return []
    found = lines[:1]
    for line, row in zip(lines[1:], rows, strict=True):
        found += [line, *_texts(columns, row, width)]
    return found


def _texts(columns: Sequence[Column], row: Sequence[str], width: int) -> list[str]:
    """The figures of a row that are known, each with its heading."""
    named = [
        f"{column.heading}: {row[i]}"
        for i, column in enumerate(columns)
        if i and column.is_text and row[i] not in ("", "-")
    ]
    return [_INDENT + part for text in named for part in _wrapped(text, width - len(_INDENT))]


def _stacked(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The first column on a line of its own, the figures below it in columns, texts below those."""
    short = [i for i, column in enumerate(columns) if i and not column.is_text and not column.spare]
    figures = [columns[i] for i in short]
    picked = [[row[i] for i in short] for row in rows]
    widths = _widths(figures, picked)
    lines = [columns[0].heading]
    lines += _wrapped_row(figures, widths, [column.heading for column in figures], width)
    for row, some in zip(rows, picked, strict=True):
        lines.append(row[0])
        lines += _wrapped_row(figures, widths, some, width)
        lines += _texts(columns, row, width)
    return lines


def _wrapped_row(columns: Sequence[Column], widths: Sequence[int], row: Sequence[str], width: int) -> list[str]:
    """Columns in as many lines as they need."""
    lines: list[str] = []
    begin = 0
    for end in range(1, len(columns) + 1):
        room = sum(widths[begin : end + 1]) + len(_GAP) * (end - begin)
        if end == len(columns) or room > width - len(_INDENT):
            lines.append(_INDENT + _line(columns[begin:end], widths[begin:end], row[begin:end]))
            begin = end
    return [line for line in lines if line.strip()]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(8, width), break_on_hyphens=False) or [""]
