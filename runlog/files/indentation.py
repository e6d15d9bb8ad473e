"""Which line of a text that is no YAML is indented wrongly. Pure. Shown by tests/runlog/test_runlog_indentation.py.

The parser names the line at which it gives up and says "expected <block end>". People need the line that is off and the
line that it does not agree with. This looks at leading spaces only, so it is asked after the parser has failed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_BLOCK_TEXT: Final = re.compile(r"(?:^|[\s:-])[|>][+-]?\d?\s*$")
_STRINGS: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'")
_COMMENT: Final = re.compile(r"(?:^|\s)#.*$")
_ITEM: Final = re.compile(r"- +")


@dataclass(frozen=True, slots=True)
class _Level:
    spaces: int
    line: int  # the first line that stands so


def indentation_problem(text: str) -> tuple[int, str] | None:
    """(line from 1, what is wrong with it), or None if no line is off."""
    open_levels: list[_Level] = []
    before = _Level(0, 0)
    may_go_deeper, brackets, block_spaces = True, 0, -1
    for number, raw in enumerate(text.splitlines(), start=1):
        content = raw.lstrip(" ")
        spaces = len(raw) - len(content)
        if block_spaces >= 0 and (not content.strip() or spaces > block_spaces):
            continue  # the text of a block scalar
        block_spaces = -1
        bare = _COMMENT.sub("", _STRINGS.sub("''", content)).rstrip()
        if not bare or bare in ("---", "..."):
            continue
        if content.startswith("\t"):
            return number, "is indented by a tab, expected spaces"
        if not brackets:
            problem = _off(open_levels, before, spaces, number, may_go_deeper=may_go_deeper)
            if problem:
                return number, problem
            _open(open_levels, spaces, number, bare)
            before = _Level(spaces, number)
        brackets = max(0, brackets + sum(map(bare.count, "[{")) - sum(map(bare.count, "]}")))
        if _BLOCK_TEXT.search(bare):
            block_spaces = spaces
        may_go_deeper = bare.endswith((":", "-")) or ": " not in bare  # a plain text may go on in the next line
    return None


def _off(levels: list[_Level], before: _Level, spaces: int, line: int, *, may_go_deeper: bool) -> str:
    """What is wrong with a line of this many spaces; empty if it may stand so. Levels that it ends are closed."""
    if not levels:
        return ""
    if spaces > levels[-1].spaces:
        if may_go_deeper:
            return ""
        return (
            f"is indented by {_counted(spaces)}, but line {before.line} before it by {levels[-1].spaces} and has no "
            "mapping under it: keys that belong together stand below each other"
        )
    inner = levels[-1]
    while levels and levels[-1].spaces > spaces:
        inner = levels.pop()
    if levels and levels[-1].spaces == spaces:
        return ""
    others = [f"line {inner.line} by {inner.spaces}"]
    if levels:
        others.insert(0, f"line {levels[-1].line} by {levels[-1].spaces}")
    return f"is indented by {_counted(spaces)}, but {' and '.join(others)}: one of these lines is off"


def _open(levels: list[_Level], spaces: int, line: int, bare: str) -> None:
    if not levels or spaces > levels[-1].spaces:
        levels.append(_Level(spaces, line))
    while item := _ITEM.match(bare):  # the mapping of a list's item begins behind the dash
        spaces += len(item.group())
        bare = bare[item.end() :]
        levels.append(_Level(spaces, line))


def _counted(spaces: int) -> str:
    return f"{spaces} space{'s' if spaces != 1 else ''}"
