"""Message types: kio's dataclasses, found by API key and version, and built with a tolerant helper.

Owns: the look-up, `build` (which leaves out fields that a version lacks and fills in the protocol's defaults) and the
small conversions between kio's semantic values and plain numbers. encoder.py and decoder.py handle the bytes.

    module = response_types(ApiKey.FETCH, 12)          # the module with FetchResponse, PartitionData, ...
    message = response(ApiKey.FETCH, version, throttle_time=0, responses=[{"topic": "t", "partitions": [{...}]}])

In `build` a nested structure may be a mapping, and an array may be any iterable. An error code or a duration in ms may
be a plain int.

`request`, `response` and `field_or` have their own types for each API (broker/wire/shapes). So mypy refuses a field
that no version has, and a value of the wrong type. Code that handles messages of any API sees them as `Message`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kio.index import load_payload_module, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial._introspect import (  # The only private function of kio that we use.
    EntityField,
    EntityTupleField,
    PrimitiveField,
    PrimitiveTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)
from kio.static.constants import EntityType

from broker.wire.errors import LocalProtocolError

__all__ = [
    "FieldShape",
    "Message",
    "build",
    "error_of",
    "field_or",
    "field_shapes",
    "request",
    "request_type",
    "request_types",
    "response",
    "response_type",
    "response_types",
    "to_ms",
]

# A message of any API, for codecs and connections, which look at no field. Code that handles one API uses its type in
# broker/wire/shapes. kio's types are chosen at run time by (API key, version), and no static type can express that.
Message = Any
MessageType = Any

ZERO_UUID = UUID(int=0)


@cache
def request_type(api_key: int, version: int) -> MessageType:
    return load_request_schema(int(api_key), version)


@cache
def response_type(api_key: int, version: int) -> MessageType:
    return load_response_schema(int(api_key), version)


@cache
def request_types(api_key: int, version: int) -> Any:
    """kio's module of this request. It holds the nested types too."""
    return load_payload_module(int(api_key), version, EntityType.request)


@cache
def response_types(api_key: int, version: int) -> Any:
    return load_payload_module(int(api_key), version, EntityType.response)


def _request(api_key: int, version: int, /, **values: object) -> Message:
    """Build a request of this version; see `build`."""
    return build(request_type(api_key, version), values)


def _response(api_key: int, version: int, /, **values: object) -> Message:
    """Build a response of this version; see `build`."""
    return build(response_type(api_key, version), values)


if TYPE_CHECKING:
    from broker.wire.shapes.overloads import field_or, request, response
else:
    request, response = _request, _response
    # field_or(message, "session_id", -1) reads a field that some of our versions lack. If it is missing, the result is
    # the default.
    field_or = getattr


class FieldShape:
    """One field of a message type, as encoder, decoder and builder need it. Computed once, at the first use of the
    type."""

    __slots__ = ("default", "is_array", "kafka_type", "name", "nested", "nullable", "tag")

    def __init__(self, field: Field[Any]) -> None:
        shape = classify_field(field)
        self.name: str = field.name
        tag = get_field_tag(field)
        self.tag: int | None = None if tag is None else int(tag)
        self.nullable = is_optional(field) or _is_optional_array(field)
        self.is_array = isinstance(shape, PrimitiveTupleField | EntityTupleField)
        self.nested: MessageType | None = shape.type_ if isinstance(shape, EntityField | EntityTupleField) else None
        primitive = isinstance(shape, PrimitiveField | PrimitiveTupleField)
        self.kafka_type = get_schema_field_type(field) if primitive else "entity"
        self.default = field.default if field.default is not MISSING else self._implicit_default()

    def _implicit_default(self) -> Any:
        if self.is_array:
            return ()
        if self.nullable:
            return None
        if self.nested is not None:
            return build(self.nested, {})
        return _ZERO[self.kafka_type]


def _is_optional_array(field: Field[Any]) -> bool:
    return type(None) in getattr(field.type, "__args__", ())


_DURATION_MS_MAX = 86_400_000 * 999_999_999
_ZERO: dict[str, Any] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), 0),
    "float64": 0.0,
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": None,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": None,
}


@cache
def field_shapes(message_type: MessageType) -> tuple[FieldShape, ...]:
    return tuple(FieldShape(field) for field in fields(message_type))


@cache
def _builder(message_type: MessageType) -> tuple[dict[str, Any], dict[str, Callable[[Any], Any]]]:
    """(the default of every field, the converters of the fields that need one)."""
    shapes = field_shapes(message_type)
    converters = {shape.name: _converter(shape) for shape in shapes}
    return {shape.name: shape.default for shape in shapes}, {
        name: converter for name, converter in converters.items() if converter is not None
    }


def _converter(shape: FieldShape) -> Callable[[Any], Any] | None:
    if shape.nested is not None:
        nested = shape.nested

        def convert(value: Any) -> Any:
            return build(nested, value) if isinstance(value, Mapping) else value

        if not shape.is_array:
            return convert
        return lambda values: None if values is None else tuple([convert(value) for value in values])
    if shape.is_array:
        return lambda values: None if values is None else tuple(values)
    if shape.kafka_type == "timedelta_i64":
        return lambda value: to_long_duration(value) if isinstance(value, int) else value
    if shape.kafka_type == "timedelta_i32":
        return lambda value: timedelta(milliseconds=value) if isinstance(value, int) else value
    if shape.kafka_type == "error_code":
        return lambda value: value if isinstance(value, ErrorCode) else ErrorCode(value)
    if shape.kafka_type == "datetime_i64":
        return lambda value: None if value == -1 else value
    return None


def build(message_type: MessageType, values: Mapping[str, object]) -> Message:
    """Make one message or nested structure. Fields that another version of the API has are left out silently.

    Raises LocalProtocolError for a field name that no version of this API has, because it must be misspelt.
    """
    defaults, converters = _builder(message_type)
    arguments = {**defaults, **values}
    if len(arguments) > len(defaults):
        _drop_fields_of_other_versions(message_type, arguments, defaults)
    for name, converter in converters.items():
        if name in values:
            arguments[name] = converter(arguments[name])
    return message_type(**arguments)


def _drop_fields_of_other_versions(
    message_type: MessageType, arguments: dict[str, Any], known: Mapping[str, object]
) -> None:
    for name in arguments.keys() - known.keys():
        if name not in _names_of_all_versions(message_type):
            where = f"{message_type.__module__}.{message_type.__name__}"
            raise LocalProtocolError(f"{where}: no version has a field {name!r}")
        del arguments[name]


@cache
def _names_of_all_versions(message_type: MessageType) -> frozenset[str]:
    api_key = int(message_type.__api_key__)
    load = request_types if message_type.__module__.endswith(".request") else response_types
    names: set[str] = set()
    for version in schema_name_map[api_key_map[api_key]]:
        module = load(api_key, version)
        for entity in _entities(vars(module).values(), module.__name__):
            names.update(field.name for field in fields(entity))
    return frozenset(names)


def _entities(values: Iterable[Any], module_name: str) -> Iterable[MessageType]:
    return [value for value in values if isinstance(value, type) and value.__module__ == module_name]


def to_long_duration(value: int) -> timedelta:
    """Some peers send the largest number of milliseconds to say "as long as possible". Python's timedelta cannot hold
    it, so it is limited."""
    return timedelta(milliseconds=min(max(value, -_DURATION_MS_MAX), _DURATION_MS_MAX))


def to_ms(value: timedelta | datetime | int | None) -> int:
    """A duration or a point in time as whole milliseconds. None (kio's value for an absent time) is -1."""
    if isinstance(value, int):
        return value
    if value is None:
        return -1
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return value.days * 86_400_000 + value.seconds * 1000 + round(value.microseconds / 1000)


def error_of(message: object) -> ErrorCode:
    """The message's own top-level error code; `none` where the version has no such field."""
    code: ErrorCode = getattr(message, "error_code", ErrorCode.none)
    return code
