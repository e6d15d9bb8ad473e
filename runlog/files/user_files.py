"""Files that a user names (suites, scenarios, allowances, client configurations): read within limits, or refused.

Sizes, depth, nodes and the expansion of aliases are counted on the parser's events, before any value is built. The text
is parsed once. Knows nothing of what a file means. Shown by tests/runlog/test_runlog_user_files.py.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, Event, NodeEvent

from runlog.files.indentation import indentation_problem

FILE_BYTES_MAX: Final = 1 << 20  # the longest suite that comes with the package has 5 KB
NODES_MAX: Final = 20_000  # a second's work for the parser; long lists belong in files of their own (replay's `file`)
DEPTH_MAX: Final = 40  # ours have 8; the composer is recursive
ALIASES_MAX: Final = 1_000
_OTHER_KINDS: Final = (
    (stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)  # fmt: skip


class UserFileError(ValueError):
    """What is wrong with the file. `line` counts from 1; None if no single line is wrong."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.problem, self.line = problem, line

    def at(self, name: object) -> str:
        return f"{name}:{self.line}: {self.problem}" if self.line is not None else f"{name}: {self.problem}"


def read_text(path: Path, *, bytes_max: int = FILE_BYTES_MAX) -> str:
    """UTF-8 without NUL, of a regular file. UserFileError; never waits for a FIFO or a terminal."""
    try:
        _expect_file(os.stat(path).st_mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            _expect_file(os.fstat(descriptor).st_mode)  # it may be another file by now
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise UserFileError(f"cannot be read: {error.strerror or error}") from error
    if len(data) > bytes_max:
        raise UserFileError(f"larger than {bytes_max:,} bytes")
    if (place := data.find(b"\0")) >= 0:
        raise UserFileError("holds a NUL byte, expected text", data.count(b"\n", 0, place) + 1)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserFileError(f"is not UTF-8: byte 0x{data[error.start]:02x}", line) from error


def _expect_file(mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in _OTHER_KINDS if is_kind(mode)), "no regular file")
        raise UserFileError(f"is {kind}, expected a file")


def load_yaml(text: str, yaml: YAML) -> Any:  # whatever YAML allows
    """What `yaml` makes of the text. UserFileError for what is no YAML, and for what is too much of it."""
    try:
        yaml.Parser = _bounded(yaml.Parser)
        return yaml.load(text)
    except MarkedYAMLError as error:
        if off := indentation_problem(text):
            line, problem = off
            raise UserFileError(f"not YAML: {problem}", line) from error
        mark = error.problem_mark
        problem = str(error.problem or error.context or "unknown").split("\n")[0][:200]
        raise UserFileError(f"not YAML: {problem}", mark.line + 1 if mark is not None else 1) from error
    except YAMLError as error:
        raise UserFileError(f"not YAML: {str(error).splitlines()[0][:200]}") from error
    except UserFileError:
        raise
    except (ValueError, RecursionError, OverflowError, AttributeError, KeyError, TypeError) as error:
        # The words of the constructors: a number of too many digits, the 31st of February, a tag of another language.
        raise UserFileError(f"a value cannot be read: {type(error).__name__}: {str(error)[:200]}") from error


def _bounded(parser: Any) -> Any:  # a class of ruamel's, which has no types
    """The same parser, whose events are counted on their way to the composer. The composer only makes a tree of nodes,
    in which an alias is one reference. Values are built when the tree is whole, and so within the limits."""

    class Bounded(parser):  # type: ignore[misc]  # as above
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._limits = _Limits()

        def get_event(self) -> Any:
            event = super().get_event()
            if event is not None:
                self._limits.take(event)
            return event

    return Bounded


class _Limits:
    """Counts nodes as if aliases were expanded, because nine lines can expand to a billion nodes."""

    def __init__(self) -> None:
        self._nodes = self._aliases = 0
        self._sizes: dict[str, int] = {}  # expanded sizes of nodes with an anchor
        self._opened: list[tuple[str | None, int]] = []  # anchor, and the count when it began

    def take(self, event: Event) -> None:
        """UserFileError for the event that is too much."""
        line = event.start_mark.line + 1
        if isinstance(event, CollectionEndEvent):
            anchor, before = self._opened.pop()
            if anchor is not None:
                self._sizes[anchor] = self._nodes - before
        elif isinstance(event, AliasEvent):
            self._aliases += 1
            if any(anchor == event.anchor for anchor, _ in self._opened):
                raise UserFileError(f"alias *{event.anchor} stands inside of what it names", line)
            if self._aliases > ALIASES_MAX:
                raise UserFileError(f"more than {ALIASES_MAX:,} aliases", line)
            self._nodes += self._sizes.get(event.anchor, 1)
        elif isinstance(event, NodeEvent):
            self._nodes += 1
            if isinstance(event, CollectionStartEvent):
                self._opened.append((event.anchor, self._nodes - 1))
            elif event.anchor is not None:
                self._sizes[event.anchor] = 1
        if self._nodes > NODES_MAX:
            raise UserFileError(f"more than {NODES_MAX:,} values, counting what its aliases stand for", line)
        if len(self._opened) > DEPTH_MAX:
            raise UserFileError(f"nested deeper than {DEPTH_MAX}", line)
