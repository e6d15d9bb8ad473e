"""What the catalogue says of one figure of a cell. Types only, and quick to import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, Flag, StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # it computes, and a suite is read without it
    from reports.judge.cell_source import CellSource

Value: TypeAlias = str | float | None
Read: TypeAlias = "Callable[[CellSource], Value]"


class Better(StrEnum):
    """The better direction of a figure. A disturbance of the host moves a figure in the worse direction."""

    LOW = "low"
    HIGH = "high"
    NEITHER = ""  # a disturbed host does not change it


class Files(Flag):
    """The files of results/ that have the figure."""

    NONE = 0
    CSV = 1  # a column of cells.csv
    JSON = 2  # a field of each cell of verdicts.json
    BOTH = CSV | JSON


class Kind(Enum):
    """What verdicts.json has for the figure. Its JSON Schema is made of that."""

    TEXT = "text"
    COUNT = "count"
    COUNT_OR_NULL = "count or null"
    NUMBER = "number"
    NUMBER_OR_NULL = "number or null"
    NUMBER_IF_KNOWN = "number, left out if it is not known"


class Form(StrEnum):
    """How the page writes a value."""

    NUMBER = "number"
    THREE_DIGITS = "three digits"
    PERCENT = "percent"
    MS = "ms"  # The values are microseconds.


class Shown(Enum):
    """When the page's table has the column before a reader chooses."""

    ALWAYS = "always"
    IF_TOLD = "if a cell has something to say"
    CHOSEN = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the page's table of all cells."""

    title: str
    form: Form = Form.NUMBER
    digits: int = 0
    shown: Shown = Shown.IF_TOLD
    nothing: float = 0.0  # the value that says nothing
    near: float = 0.0  # nor does a value as near to it as this
    is_of_pace: bool = False  # at a ceiling it is the length of a queue that the load made, and is not shown
    read: Read | None = None  # where the page shows another value than the files


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    name: str  # in files, with its unit
    about: str  # what it is, in one line
    read: Read
    unit: str = ""  # empty: a text, a ratio or a share of 1
    rows: str  # the streams and files of the run directory that it is computed from
    better: Better = Better.NEITHER
    files: Files = Files.BOTH
    kind: Kind = Kind.NUMBER_OR_NULL
    decimals: int | None = None  # in files; None: all
    limit: str = ""  # how limits name it; empty: none may
    column: Column | None = None
    title: str = ""  # its name in the page's list of what each number means; empty: it is not there
    definition: str = ""  # That list shows it. Empty: `about` says it all.

    @property
    def is_left_out(self) -> bool:
        """Of verdicts.json, while it is not known."""
        return self.kind is Kind.NUMBER_IF_KNOWN

    def filed(self, source: CellSource) -> Value:
        """As the files have it."""
        value = self.read(source)
        return round(value, self.decimals) if self.decimals is not None and isinstance(value, float) else value

    def in_table(self, source: CellSource) -> float | None:
        """As the page's table of cells has it. None: nothing."""
        assert self.column is not None
        if self.column.is_of_pace and source.is_ceiling:
            return None
        value = (self.column.read or self.read)(source)
        assert not isinstance(value, str), f"{self.name} is a text"
        return value
