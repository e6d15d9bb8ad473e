"""Records become JSON and come back; a line is exact, a document tolerant."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal

import pytest

import runlog.records
from runlog.records.cell import CellKind, CellRecord, CellStatus, Expectation
from runlog.records.codec import RecordError, Rest, from_document, from_line, needed_fields, to_json
from runlog.records.run import RunRecord


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    share: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    t_us: int
    kind: ClassVar[Colour] = Colour.RED
    name: str
    colour: Colour
    choice: Literal["a", "b"] = "a"
    is_whole: bool = False
    maybe: int | None = None
    told: int | None
    isr: tuple[int, ...] = ()
    runs: tuple[tuple[int, str], ...] = ()
    ends: Mapping[int, int] = field(default_factory=dict)
    inner: Inner = Inner()
    inners: tuple[Inner, ...] = ()
    by_name: Mapping[str, tuple[Inner, ...]] = field(default_factory=dict)
    anything: Mapping[str, Any] = field(default_factory=dict)
    more: Rest = field(default_factory=dict)


WHOLE = Everything(
    t_us=1, name="x", colour=Colour.BLUE, choice="b", is_whole=True, maybe=3, told=4, isr=(1, 2), runs=((1, "a"),),
    ends={0: 7}, inner=Inner(share=1), inners=(Inner(share=0.25),), by_name={"s": (Inner(),)},
    anything={"a": [None, {"b": None}], "n": None}, more={"other": 1},
)  # fmt: skip
AS_JSON = {
    "t_us": 1, "kind": "red", "name": "x", "colour": "blue", "choice": "b", "is_whole": True, "maybe": 3, "told": 4,
    "isr": [1, 2], "runs": [[1, "a"]], "ends": {"0": 7}, "inner": {"share": 1}, "inners": [{"share": 0.25}],
    "by_name": {"s": [{"share": 0.5}]}, "anything": {"a": [None, {"b": None}], "n": None}, "other": 1,
}  # fmt: skip
LEAST = {"t_us": 1, "name": "x", "colour": "red"}


def test_a_record_is_written_in_the_order_of_its_fields_and_comes_back() -> None:
    assert list(to_json(WHOLE).items()) == list(AS_JSON.items())
    assert from_line(Everything, AS_JSON) == from_document(Everything, AS_JSON) == WHOLE


def test_what_is_none_by_default_is_left_out_and_what_is_none_by_choice_is_null() -> None:
    found = to_json(from_line(Everything, LEAST))
    assert "maybe" not in found
    assert found["told"] is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"t_us": None}, "has no t_us"),
        ({"t_us": 1.0}, "has t_us='1.0', expected an integer of 64 bits"),
        ({"t_us": "1"}, "expected an integer of 64 bits"),
        ({"name": ["x"]}, "has name=\"['x']\", expected a text"),
        ({"colour": "green"}, "expected one of red, blue"),
        ({"choice": "c"}, "expected one of a, b"),
        ({"is_whole": 1}, "expected true or false"),
        ({"isr": [1, None]}, "expected a list of integers"),
        ({"runs": [[1]]}, "expected a list"),
        ({"ends": []}, "expected an object"),
        ({"inner": 1}, "expected an object"),
    ],
)
def test_a_line_says_what_is_wrong_with_it(change: dict[str, object], why: str) -> None:
    with pytest.raises(RecordError) as caught:
        from_line(Everything, {**LEAST, **change})
    assert why in str(caught.value)


def test_a_document_is_read_as_far_as_it_goes() -> None:
    odd = {"t_us": "soon", "name": 5, "colour": "green", "isr": [1, "x", 2], "ends": {"a": 1, "1": 2}, "inner": [1],
           "inners": [{"share": "x"}, 3], "told": True, "choice": 1, "runs": {}}  # fmt: skip
    assert from_document(Everything, odd) == Everything(
        t_us=0, name="5", colour=Colour.RED, told=None, isr=(1, 2), ends={1: 2}, inners=(Inner(),)
    )
    assert from_document(Everything, [1]) == Everything(t_us=0, name="", colour=Colour.RED, told=None)


def test_whole_numbers_of_a_document_may_be_written_with_a_point() -> None:
    assert from_document(Everything, {"t_us": 5.0}).t_us == 5
    assert from_document(Everything, {"t_us": float("inf")}).t_us == 0


def test_needed_is_what_has_no_default_and_cannot_be_none() -> None:
    assert needed_fields(Everything) == ("t_us", "name", "colour")


def _record_types() -> list[type]:
    modules = [importlib.import_module(f"runlog.records.{found.name}") for found in _modules()]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == module.__name__
    ]


def _modules() -> list[pkgutil.ModuleInfo]:
    return [found for found in pkgutil.iter_modules(runlog.records.__path__) if found.name not in ("codec", "lines")]


def test_every_record_can_be_made_of_an_empty_document_and_comes_back_from_its_json() -> None:
    for record_type in _record_types():
        empty = from_document(record_type, {})
        assert from_document(record_type, to_json(empty)) == empty, record_type


def test_an_empty_cell_and_an_empty_run_invent_nothing() -> None:
    cell = from_document(CellRecord, {"expect": {"lost": "exact"}, "outcome": {}})
    assert (cell.kind, cell.has_faults, cell.baseline) == (CellKind.SWEEP, True, False)
    assert (cell.expect.lost, cell.expect.duplicated) == (Expectation.EXACT, Expectation.NONE)
    assert cell.outcome.status is CellStatus.UNKNOWN
    assert from_document(RunRecord, {}).cells is None
