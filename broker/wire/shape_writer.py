"""`python -m broker.wire.shape_writer`: writes the stubs in broker/wire/shapes from kio's schemas and our versions.

Owns: how the fields of several versions become one type, and the text of the stubs. broker/wire/shapes says what the
stubs are for. A broker does not run this code.
Shown by tests/broker_wire/test_wire_shapes.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kio.schema.index import api_key_map

from broker.wire.apis import APIS, Api, ApiKey
from broker.wire.messages import FieldShape, field_shapes, request_type, response_type

DIRECTORY = Path(__file__).with_name("shapes")
WRITTEN_BY = "Written by `python -m broker.wire.shape_writer`."
LINE_CHARACTERS_MAX = 120

_WHOLE_NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
# Kafka's type -> (type when a message is read, type when it is built)
_PYTHON: dict[str, tuple[str, str]] = {
    **dict.fromkeys(_WHOLE_NUMBERS, ("int", "int")),
    "float64": ("float", "float"),
    "bool": ("bool", "bool"),
    "string": ("str", "str"),
    "bytes": ("bytes", "bytes"),
    "records": ("memoryview", "Buffer"),
    "uuid": ("UUID | None", "UUID | None"),
    "error_code": ("ErrorCode", "int"),
    "timedelta_i32": ("timedelta", "timedelta | int"),
    "timedelta_i64": ("timedelta", "timedelta | int"),
    "datetime_i64": ("datetime | None", "datetime | int | None"),
}


# Requests that hand-written code decodes if they are usual (hot_produce.py, hot_fetch.py). Their durations are then
# plain milliseconds, and their arrays may be lists.
_BY_HAND = (ApiKey.PRODUCE, ApiKey.FETCH)
_READ_BY_HAND = {"timedelta": "timedelta | int"}


@dataclass(slots=True, kw_only=True)
class _Field:
    """One field, in all versions that have it."""

    kafka_type: str
    nested: str | None
    is_array: bool
    is_by_hand: bool = False
    nullable: bool = False
    versions: set[int] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class _Entity:
    """A message or a nested structure, in all versions that have it."""

    fields: dict[str, _Field] = field(default_factory=dict)
    versions: set[int] = field(default_factory=set)

    def partial(self) -> Iterator[tuple[str, _Field]]:
        """Fields that some of its versions lack."""
        return ((name, each) for name, each in self.fields.items() if each.versions != self.versions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shapes:
    """All types of one API, by the names that they get in its stub."""

    api: Api
    module: str
    request: str
    response: str
    entities: dict[str, _Entity]


def _shapes(api: Api) -> _Shapes:
    versions = range(api.min_version, api.max_version + 1)
    asked, answered = (
        _entities((version, load(api.key, version)) for version in versions) for load in (request_type, response_type)
    )
    if api.key in _BY_HAND:
        for entity in asked.values():
            for each in entity.fields.values():
                each.is_by_hand = True
    twice = asked.keys() & answered.keys()
    request_name, response_name = next(reversed(asked)), next(reversed(answered))
    entities = {
        **_renamed(asked, {name: f"Asked{name}" for name in twice}),
        **_renamed(answered, {name: f"Answered{name}" for name in twice}),
    }
    module = api_key_map[int(api.key)]
    return _Shapes(api=api, module=module, request=request_name, response=response_name, entities=entities)


def _entities(message_types: Iterable[tuple[int, Any]]) -> dict[str, _Entity]:
    """The types by kio's names. The message itself comes last."""
    found: dict[str, _Entity] = {}
    name = ""
    for version, message_type in message_types:
        name = message_type.__name__
        _collect(found, version, message_type)
    found[name] = found.pop(name)
    return found


def _collect(found: dict[str, _Entity], version: int, entity_type: Any) -> None:
    for shape in field_shapes(entity_type):
        if shape.nested is not None:
            _collect(found, version, shape.nested)
    entity = found.setdefault(entity_type.__name__, _Entity())
    entity.versions.add(version)
    for shape in field_shapes(entity_type):
        _merge(entity.fields.setdefault(shape.name, _new_field(shape)), shape, version)


def _new_field(shape: FieldShape) -> _Field:
    nested = None if shape.nested is None else shape.nested.__name__
    return _Field(kafka_type=shape.kafka_type, nested=nested, is_array=shape.is_array)


def _merge(known: _Field, shape: FieldShape, version: int) -> None:
    nested = None if shape.nested is None else shape.nested.__name__
    same = known.nested == nested and known.is_array == shape.is_array
    same = same and _PYTHON.get(known.kafka_type) == _PYTHON.get(shape.kafka_type)
    if not same:
        raise ValueError(f"field {shape.name!r} has another type in version {version}: one stub cannot hold both")
    known.nullable = known.nullable or shape.nullable
    known.versions.add(version)


def _renamed(entities: dict[str, _Entity], names: dict[str, str]) -> dict[str, _Entity]:
    for entity in entities.values():
        for each in entity.fields.values():
            if each.nested is not None:
                each.nested = names.get(each.nested, each.nested)
    return {names.get(name, name): entity for name, entity in entities.items()}


# -- text ----------------------------------------------------------------------------------------------------------


def _read_type(each: _Field) -> str:
    one = each.nested or _PYTHON[each.kafka_type][0]
    if each.is_by_hand:
        one = _READ_BY_HAND.get(one, one)
        return _or_none(f"Sequence[{one}]" if each.is_array else one, each)
    return _or_none(f"tuple[{one}, ...]" if each.is_array else one, each)


def _built_type(each: _Field) -> str:
    one = f"{each.nested}Fields" if each.nested else _PYTHON[each.kafka_type][1]
    return _or_none(f"Iterable[{one}]" if each.is_array else one, each)


def _or_none(text: str, each: _Field) -> str:
    return f"{text} | None" if each.nullable and not text.endswith("| None") else text


def _remark(each: _Field, entity: _Entity) -> str:
    """A comment with the versions that have the field, if not all have it."""
    if each.versions == entity.versions:
        return ""
    low, high = min(each.versions), max(each.versions)
    if high == max(entity.versions):
        return f"  # since version {low}"
    if low == min(entity.versions):
        return f"  # until version {high}"
    return f"  # versions {low} to {high}" if low != high else f"  # version {low}"


def _stub(shapes: _Shapes) -> str:
    api = shapes.api
    body: list[str] = []
    for name, entity in shapes.entities.items():
        body += ["", *_message_lines(shapes, name, entity), "", *_fields_lines(name, entity)]
    head = [f'"""{shapes.request} (key {int(api.key)}) and its answer, {_range(api)}.', "", WRITTEN_BY, '"""', ""]
    return "\n".join([*head, *_imports("\n".join(body)), *body]) + "\n"


def _range(api: Api) -> str:
    if api.min_version == api.max_version:
        return f"version {api.min_version}"
    return f"versions {api.min_version}-{api.max_version}"


def _imports(body: str) -> list[str]:
    """The imports that the body needs, in ruff's order."""
    times = [name for name in ("datetime", "timedelta") if name in body]
    arrays = [name for name in ("Iterable", "Sequence") if f"{name}[" in body]
    lines = [f"from collections.abc import {', '.join(arrays)}"] if arrays else []
    lines.append("from dataclasses import dataclass")
    lines += [f"from datetime import {', '.join(times)}"] if times else []
    lines.append(
        "from typing import TypeAlias, TypedDict, final" if "Buffer" in body else "from typing import TypedDict, final"
    )
    lines += ["from uuid import UUID"] if "UUID" in body else []
    lines += ["", "from broker.wire.errors import ErrorCode"] if "ErrorCode" in body else [""]
    lines.append("from broker.wire.shapes.kinds import Answers, Asks")
    return [*lines, "", "Buffer: TypeAlias = bytes | bytearray | memoryview"] if "Buffer" in body else lines


def _message_lines(shapes: _Shapes, name: str, entity: _Entity) -> list[str]:
    kinds = {shapes.request: f"(Asks[{shapes.response}])", shapes.response: f"(Answers[{shapes.request}])"}
    lines = ["@final", "@dataclass(frozen=True, kw_only=True)"]
    if not entity.fields:
        return [*lines, f"class {name}{kinds.get(name, '')}: ..."]
    lines.append(f"class {name}{kinds.get(name, '')}:")
    return lines + [f"    {key}: {_read_type(each)}{_remark(each, entity)}" for key, each in entity.fields.items()]


def _fields_lines(name: str, entity: _Entity) -> list[str]:
    if not entity.fields:
        return [f"class {name}Fields(TypedDict, total=False): ..."]
    lines = [f"class {name}Fields(TypedDict, total=False):"]
    return lines + [f"    {key}: {_built_type(each)}{_remark(each, entity)}" for key, each in entity.fields.items()]


def _overloads(all_shapes: list[_Shapes]) -> str:
    lines = [
        '"""The types of `request`, `response` and `field_or` in broker/wire/messages.py.',
        "",
        WRITTEN_BY,
        '"""',
        "",
    ]
    body: list[str] = []
    for shapes in all_shapes:
        body += _builder("request", shapes, shapes.request)
    for shapes in all_shapes:
        body += _builder("response", shapes, shapes.response)
    for shapes in all_shapes:
        for name, entity in shapes.entities.items():
            body += _readers(shapes.module, name, entity)
    text = "\n".join(body)
    times = [name for name in ("datetime", "timedelta") if name in text]
    lines += ["from collections.abc import Sequence"] if "Sequence[" in text else []
    lines += [f"from datetime import {', '.join(times)}"] if times else []
    lines.append("from typing import Literal, TypeVar, Unpack, overload")
    lines += ["from uuid import UUID"] if "UUID" in text else []
    lines += ["", "from broker.wire.apis import ApiKey"]
    lines += ["from broker.wire.errors import ErrorCode"] if "ErrorCode" in text else []
    lines += ["from broker.wire.shapes import (", *sorted(f"    {shapes.module}," for shapes in all_shapes), ")"]
    return "\n".join([*lines, "", 'Default = TypeVar("Default")', "", text]) + "\n"


def _builder(function: str, shapes: _Shapes, message: str) -> list[str]:
    key = f"Literal[ApiKey.{shapes.api.key.name}]"
    values = f"Unpack[{shapes.module}.{message}Fields]"
    arguments = [f"api_key: {key}", "version: int", "/", f"**values: {values}"]
    return _overload(function, arguments, f"{shapes.module}.{message}")


def _readers(module: str, name: str, entity: _Entity) -> list[str]:
    """The overloads of `field_or`. Fields of the same type share one."""
    by_type: dict[str, list[str]] = {}
    for key, each in entity.partial():
        shown = _read_type(each)
        if each.nested is not None:
            shown = shown.replace(each.nested, f"{module}.{each.nested}")
        by_type.setdefault(shown, []).append(key)
    lines: list[str] = []
    for shown, keys in by_type.items():
        for part in _parts(keys):
            names = ", ".join(f'"{key}"' for key in part)
            read = [f"message: {module}.{name}", f"name: Literal[{names}]"]
            required = shown.removesuffix(" | None")
            if required != shown:  # mypy cannot solve `str | Default | None` for a default of None
                lines += _overload("field_or", [*read, "default: None", "/"], shown)
            result = f"{required} | Default" if required == shown else f"{required} | Default | None"
            lines += _overload("field_or", [*read, "default: Default", "/"], result)
    return lines


def _parts(names: list[str]) -> Iterator[list[str]]:
    """Split the names into parts that fit the width of a line."""
    part: list[str] = []
    for name in names:
        if part and sum(len(each) + 4 for each in [*part, name]) > LINE_CHARACTERS_MAX - 24:
            yield part
            part = []
        part.append(name)
    yield part


def _overload(function: str, arguments: list[str], result: str) -> list[str]:
    whole = f"def {function}({', '.join(arguments)}) -> {result}: ..."
    if len(whole) <= LINE_CHARACTERS_MAX:
        return ["@overload", whole]
    inner = f"    {', '.join(arguments)}"
    if len(inner) <= LINE_CHARACTERS_MAX:
        return ["@overload", f"def {function}(", inner, f") -> {result}: ..."]
    return ["@overload", f"def {function}(", *(f"    {each}," for each in arguments), f") -> {result}: ..."]


def stubs() -> dict[str, str]:
    """All files that are written: file name -> text."""
    all_shapes = [_shapes(api) for api in APIS.values()]
    return {f"{shapes.module}.pyi": _stub(shapes) for shapes in all_shapes} | {"overloads.pyi": _overloads(all_shapes)}


def main() -> None:
    for name, text in stubs().items():
        (DIRECTORY / name).write_text(text)


if __name__ == "__main__":
    main()
