"""EDN: what is written is read again, and a damaged text is refused with its place."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.jepsen.edn import (
    DEPTH_MAX,
    Char,
    EdnError,
    Keyword,
    Map,
    Symbol,
    Tagged,
    read_elements,
    read_forms,
    write,
)
from tests.amount import examples

_NAMES = st.from_regex(r"[a-z][a-z0-9*!?-]{0,8}(/[a-z]{1,4})?", fullmatch=True)
_LEAVES = st.one_of(
    st.none(),
    st.integers(min_value=2),  # not 0 and 1: to Python they are false and true
    st.integers(max_value=-2),
    st.booleans(),
    st.floats(allow_nan=False).filter(lambda number: not number.is_integer()),
    st.text(),
    _NAMES.map(Keyword),
    _NAMES.filter(lambda name: name not in ("nil", "true", "false")).map(Symbol),
    st.characters(exclude_categories=("Cs", "Z", "C")).map(Char),
)
_FORMS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple),
        st.frozensets(inner, max_size=4),
        st.dictionaries(inner, inner, max_size=4).map(Map),
        st.builds(Tagged, _NAMES, inner),
    ),
    max_leaves=12,
)


def _read(text: str) -> list[Any]:
    return [read.form for read in read_forms(text)]


def _same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down: to Python 2 equals 2.0."""
    return bool(one == other) and write(one) == write(other)


@pytest.mark.thorough
@given(st.lists(_FORMS, max_size=5))
@settings(max_examples=examples(400), deadline=None)
def test_what_is_written_is_read_again(forms: list[Any]) -> None:
    text = "\n".join(write(form) for form in forms)
    read = _read(text)
    assert len(read) == len(forms)
    assert all(_same(one, other) for one, other in zip(read, forms, strict=True))


@given(_FORMS, st.sampled_from([",", " ", "\n; a comment ] } \n", " #_ {:left out} ", " #_ #_ :two ones "]))
@settings(max_examples=examples(200), deadline=None)
def test_what_stands_between_values_changes_nothing(form: Any, between: str) -> None:
    assert _same(_read(f"{between}[1{between}{write(form)}{between}]{between}")[0], (1, form))


@given(st.text(alphabet='[](){}#_"\\:;a1 +-.,\n/^', max_size=30))
@settings(max_examples=examples(1_000), deadline=None)
def test_any_text_is_read_or_refused_with_a_place_in_it(text: str) -> None:
    lines = text.split("\n")
    refused: list[EdnError] = []
    try:
        _read(text)
    except EdnError as error:
        refused.append(error)
    for error in refused:
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1


@given(_FORMS, st.data())
@settings(max_examples=examples(300), deadline=None)
def test_a_vector_that_was_cut_is_refused(form: Any, data: st.DataObject) -> None:
    text = write((form, 7))
    with pytest.raises(EdnError):
        _read(text[: data.draw(st.integers(1, len(text) - 1))])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{:a 1", "line 1, column 1: the text ends, and the map that begins here does not"),
        ("[1\n [2 3}", "line 2, column 6: got }, expected ], which ends the vector that begins in line 2, column 2"),
        ("{:a 1 :a 2}", "line 1, column 7: the key :a is here a second time"),
        ("{:a 1,\n :b}", "line 2, column 2: the map's last key, :b, has no value"),
        ("#{1 2\n1}", "line 2, column 1: the element 1 is here a second time"),
        ('[1 "abc', "line 1, column 4: the string that begins here does not end"),
        ('"a\\qb"', "line 1, column 3: \\q in a string is no escape of EDN"),
        ("1 ]", "line 1, column 3: ] closes nothing"),
        ("[#inst]", "line 1, column 2: the tag that begins here has no value"),
        ("[1 #_]", "line 1, column 4: the discard #_ that begins here has no value"),
        ("007", "line 1, column 1: 007 is no number"),
        ("12abc", "line 1, column 1: 12abc is no number"),
        ("1/2", "line 1, column 1: 1/2 is a ratio, which EDN does not have"),
        (":", "line 1, column 1: : is no keyword"),
        ("\\bogus", "line 1, column 1: \\bogus is no character"),
        ("##Infinite", "line 1, column 1: ##Infinite is none of ##Inf, ##-Inf, ##NaN"),
        ("^{:a 1} b", "line 1, column 1: ^ is no value of EDN"),
        ("  # a", "line 1, column 3: # a is no value of EDN"),
        ("9" * 500, "line 1, column 1: a number of 500 characters; expected at most 400"),
        ("[" * 65, f"line 1, column 65: values are nested more than {DEPTH_MAX} deep"),
        ("#a " * 65 + "1", f"line 1, column 193: values are nested more than {DEPTH_MAX} deep"),
    ],
)
def test_each_kind_of_damage_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(EdnError) as caught:
        _read(text)
    assert str(caught.value) == message


def test_each_kind_of_value() -> None:
    text = r'nil true false 0 -7 +8 12N 1.5 -2e3 3.25M :a :b/c d ->x \a \newline \u00e9 "x\n\u00e9\"\\" (1 2) #uuid "u"'
    assert _read(text) == [
        None, True, False, 0, -7, 8, 12, 1.5, -2000.0, 3.25, Keyword("a"), Keyword("b/c"), Symbol("d"), Symbol("->x"),
        Char("a"), Char("\n"), Char("é"), 'x\né"\\', (1, 2), Tagged("uuid", "u"),
    ]  # fmt: skip


def test_numbers_that_are_none_and_too_great_for_a_long() -> None:
    assert write(1 << 63) == "9223372036854775808N"
    assert write(-(1 << 63)) == "-9223372036854775808"
    inf, less, nan = _read("##Inf ##-Inf ##NaN")
    assert (inf, less, math.isnan(nan)) == (math.inf, -math.inf, True)
    assert [write(number) for number in (inf, less, nan)] == ["##Inf", "##-Inf", "##NaN"]


def test_the_two_halves_of_a_character_become_one() -> None:
    assert _read('"\\ud83d\\ude00"') == ["😀"]
    assert write("\ud83d") == '"\\ud83d"', "a half alone can be written too"


def test_a_text_of_one_vector_gives_its_elements() -> None:
    for text in ("1 [2] 3", "[1 [2] 3]", " ; first\n(1 [2] 3) ; last\n"):
        assert [read.form for read in read_elements(text)] == [1, (2,), 3]
    with pytest.raises(EdnError, match="line 1, column 5: a value after the end of the history's vector"):
        list(read_elements("[1] 2"))
    with pytest.raises(EdnError, match="line 1, column 1: the text ends, and the vector"):
        list(read_elements("[1 2"))


def test_values_know_where_they_begin() -> None:
    assert [read.at for read in read_forms(" 1 {:a 2} #x [3]")] == [1, 3, 10]


def test_what_is_no_value_of_edn_is_not_written() -> None:
    with pytest.raises(TypeError, match="object is no value of EDN"):
        write(object())
    deep: Any = 1
    for _ in range(DEPTH_MAX + 1):
        deep = (deep,)
    with pytest.raises(ValueError, match="nested more than 64 deep"):
        write(deep)


@pytest.mark.parametrize(
    "text", [" " * 200_000 + "\0", '"' + "a" * 200_000, ";\n" * 100_000 + "#", '"' + "\\" * 200_001]
)
def test_a_hostile_text_is_read_to_its_end(text: str) -> None:
    """An expression that goes back and forth would take years, and the test would be ended by its limit."""
    with pytest.raises(EdnError):
        _read(text)
