"""JSON to a record and back, driven by the record's type hints.

Two ways of reading, because a document and a line fail differently:
- A *line* is exact. A field of the wrong type, or one that is needed and missing, makes the line unusable: RecordError.
- A *document* is tolerant. A field that is missing or of the wrong type gets its default: the dataclass's own, else the
  empty value of its type ("", 0, False, (), {}, None). So runs of older versions, and damaged ones, still report.

In both, null means that the field is missing. Fields that the record does not know are dropped, unless the record has a
field of type `Rest`, which keeps them.

When a record is written, a field whose default is None is left out if it is None. All other fields are written.
This module knows nothing of files. Shown by tests/runlog/test_runlog_codec.py.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

R = TypeVar("R")
Json = dict[str, Any]  # one JSON object: its values are what JSON allows
_INT64_MAX: Final = 2**63 - 1

_REST: Final = "rest"
# The fields of a JSON object that the record does not name.
Rest = Annotated[Mapping[str, Any], _REST]


class RecordError(ValueError):
    """What is wrong with a line, as the end of a sentence: "has t_us='soon', expected an integer of 64 bits"."""


class NoObjectError(RecordError):
    """The line is no JSON object. If it is the last line, a kill has torn it."""


class _Unfit(Exception):
    """The value is not of the field's type; says which type was expected."""


_Read = Callable[[Any], Any]
_Write = Callable[[Any], Any] | None  # None: the value is JSON as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    name: str
    read: _Read  # It reads lines.
    read_tolerant: _Read
    write: _Write
    has_default: bool
    is_optional: bool  # its type has None
    is_omitted: bool  # not written while it is None
    empty: Callable[[], Any]  # makes the value of a document that lacks the field


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    fields: tuple[_Field, ...]
    constants: Mapping[str, str]  # For each name: a class variable that is written, such as the kind of a line.
    order: tuple[str, ...]  # names of everything that is written
    rest: str  # the field that keeps unknown fields; "" if there is none
    names: frozenset[str]


def from_line(record_type: type[R], line: Mapping[str, Any]) -> R:
    """RecordError for a line that cannot be used."""
    plan = _plan(record_type)
    values: Json = {}
    for field in plan.fields:
        value = line.get(field.name)
        if value is not None:
            try:
                values[field.name] = field.read(value)
            except _Unfit as unfit:
                raise RecordError(f"has {field.name}={str(value)[:40]!r}, expected {unfit}") from None
        elif not field.has_default:
            if not field.is_optional:
                raise RecordError(f"has no {field.name}")
            values[field.name] = None
    if plan.rest:
        values[plan.rest] = {
            name: value for name, value in line.items() if name not in plan.names and value is not None
        }
    return record_type(**values)


def from_document(record_type: type[R], document: object) -> R:
    """Never fails; what is no object counts as an empty one."""
    plan = _plan(record_type)
    given: Mapping[str, Any] = document if isinstance(document, Mapping) else {}
    values: Json = {}
    for field in plan.fields:
        value = given.get(field.name)
        if value is not None:
            try:
                values[field.name] = field.read_tolerant(value)
                continue
            except _Unfit:
                pass
        if not field.has_default:
            values[field.name] = field.empty()
    if plan.rest:
        values[plan.rest] = {name: value for name, value in given.items() if name not in plan.names}
    return record_type(**values)


def to_json(record: object) -> Json:
    """A new dict in the order of the record's fields."""
    plan = _plan(type(record))
    found: Json = {}
    fields = {field.name: field for field in plan.fields}
    for name in plan.order:
        if name in plan.constants:
            found[name] = plan.constants[name]
        elif name == plan.rest:
            found.update(getattr(record, name))
        else:
            field = fields[name]
            value = getattr(record, name)
            if value is not None:
                found[name] = value if field.write is None else field.write(value)
            elif not field.is_omitted:
                found[name] = None
    return found


def needed_fields(record_type: type) -> tuple[str, ...]:
    """The fields without which a line cannot be used."""
    return tuple(field.name for field in _plan(record_type).fields if not field.has_default and not field.is_optional)


_plans: Final[dict[type, _Plan]] = {}  # made at the first use of each record


def _plan(record_type: type) -> _Plan:
    if record_type not in _plans:
        _plans[record_type] = _made_plan(record_type)
    return _plans[record_type]


def _made_plan(record_type: type) -> _Plan:
    hints = get_type_hints(record_type, include_extras=True)
    known = {field.name: field for field in dataclasses.fields(record_type)}
    constants = {
        name: str(getattr(record_type, name).value) for name, hint in hints.items() if get_origin(hint) is ClassVar
    }
    rest = next((name for name in known if _is_rest(hints[name])), "")
    return _Plan(
        fields=tuple(_field(field, hints[name]) for name, field in known.items() if name != rest),
        constants=constants,
        order=tuple(name for name in hints if name in known or name in constants),
        rest=rest,
        names=frozenset({*known, *constants} - {rest}),
    )


def _is_rest(hint: Any) -> bool:
    return get_origin(hint) is Annotated and _REST in get_args(hint)


def _field(field: dataclasses.Field[Any], hint: Any) -> _Field:
    is_optional, inner = _without_none(hint)
    is_none_default = field.default is None
    return _Field(
        name=field.name,
        read=_reader(inner, exact=True),
        read_tolerant=_reader(inner, exact=False),
        write=_writer(inner),
        has_default=field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING,
        is_optional=is_optional,
        is_omitted=is_none_default,
        empty=(lambda: None) if is_optional else _empty(inner),
    )


def _without_none(hint: Any) -> tuple[bool, Any]:
    """Whether the type includes None, and the type without None."""
    if get_origin(hint) not in (Union, types.UnionType) or type(None) not in get_args(hint):
        return False, hint
    return True, next(arg for arg in get_args(hint) if arg is not type(None))


# --- reading one value ------------------------------------------------------------------------------------------------


def _reader(hint: Any, *, exact: bool) -> _Read:
    origin = get_origin(hint)
    is_optional, inner = _without_none(hint)
    if is_optional:
        return _or_none(_reader(inner, exact=exact))
    if hint is int:
        return _integer if exact else _whole_number
    simple: dict[Any, _Read] = {float: _number, str: _text, bool: _truth, object: _anything, Any: _anything}
    if hint in simple:
        return simple[hint]
    if origin is Literal:
        return _choice(get_args(hint))
    if origin is tuple:
        return _sequence(get_args(hint), exact=exact)
    if origin in (dict, Mapping):
        return _mapping(*get_args(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _choice(tuple(hint))
    assert dataclasses.is_dataclass(hint), f"a record cannot hold {hint}"
    return _nested(hint)


def _or_none(read: _Read) -> _Read:
    """How an item of a list or row is read that may be null."""

    def read_item(value: Any) -> Any:
        return None if value is None else read(value)

    return read_item


def _integer(value: Any) -> int:
    if type(value) is int and -_INT64_MAX <= value <= _INT64_MAX:
        return value
    raise _Unfit("an integer of 64 bits")


def _whole_number(value: Any) -> int:
    if isinstance(value, float) and math.isfinite(value):
        return int(value)
    return _integer(value)


def _number(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise _Unfit("a number")


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    if isinstance(value, str | int | float):
        return str(value)
    raise _Unfit("a text")


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _Unfit("true or false")


def _anything(value: Any) -> Any:
    return value


def _choice(members: tuple[Any, ...]) -> _Read:
    by_text = {str(getattr(member, "value", member)): member for member in members}

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            raise _Unfit("a text")
        if value not in by_text:
            raise _Unfit(f"one of {', '.join(by_text)}")
        return by_text[value]

    return read


def _sequence(hints: tuple[Any, ...], *, exact: bool) -> _Read:
    if len(hints) == 2 and hints[1] is Ellipsis:
        item = _reader(hints[0], exact=exact)
        expected = "a list of integers" if hints[0] is int else "a list"

        def read_list(value: Any) -> tuple[Any, ...]:
            if not isinstance(value, list | tuple):
                raise _Unfit(expected)
            try:
                return tuple(map(item, value))
            except _Unfit:
                if exact:
                    raise _Unfit(expected) from None
                return tuple(found for found in map(_or_nothing(item), value) if found is not _NOTHING)

        return read_list
    items = [_reader(hint, exact=exact) for hint in hints]

    def read_row(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or len(value) != len(items):
            raise _Unfit(f"a list of {len(items)}")
        return tuple(read(one) for read, one in zip(items, value, strict=True))

    return read_row


_NOTHING: Final = object()


def _or_nothing(read: _Read) -> _Read:
    def try_read(value: Any) -> Any:
        try:
            return read(value)
        except _Unfit:
            return _NOTHING

    return try_read


def _mapping(key_hint: Any, value_hint: Any) -> _Read:
    """Reads a mapping of figures whose names are not fixed. Entries that do not fit are left out, in lines too."""
    item = _or_nothing(_reader(value_hint, exact=False))
    is_open = value_hint in (object, Any)  # then null is a value too

    def read(value: Any) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise _Unfit("an object")
        found = {key: item(one) for key, one in value.items() if one is not None or is_open}
        kept = {key: one for key, one in found.items() if one is not _NOTHING}
        if key_hint is int:
            return {int(key): one for key, one in kept.items() if str(key).lstrip("-").isdecimal()}
        return kept

    return read


def _nested(record_type: Any) -> _Read:
    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _Unfit("an object")
        return from_document(record_type, value)

    return read


def _empty(hint: Any) -> Callable[[], Any]:
    origin = get_origin(hint)
    if hint in (int, float, str, bool):
        return hint  # type: ignore[no-any-return]  # a type is a function of nothing
    if origin is tuple:
        return tuple
    if origin in (dict, Mapping):
        return dict
    if dataclasses.is_dataclass(hint):
        return lambda: from_document(hint, {})  # type: ignore[arg-type]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return lambda: next(iter(hint))
    return lambda: None


# --- writing one value ------------------------------------------------------------------------------------------------


def _writer(hint: Any) -> _Write:
    origin = get_origin(hint)
    if hint in (int, float, str, bool, object, Any) or origin is Literal:
        return None
    if origin is tuple:
        items = get_args(hint)
        if _is_flat(items):
            return list
        is_rows = len(items) == 2 and items[1] is Ellipsis and get_origin(items[0]) is tuple
        return _rows if is_rows and _is_flat(get_args(items[0])) else _plain
    if origin in (dict, Mapping):
        return _plain if get_args(hint)[0] is not str or not _is_flat(get_args(hint)) else dict
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _value
    return to_json


def _is_flat(hints: tuple[Any, ...]) -> bool:
    return all(hint in (int, float, str, bool, Ellipsis) for hint in hints)


def _rows(value: Any) -> list[list[Any]]:
    return [list(row) for row in value]


def _value(member: Enum) -> Any:
    return member.value


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return to_json(value) if dataclasses.is_dataclass(value) else value
