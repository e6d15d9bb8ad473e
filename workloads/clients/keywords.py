"""Kafka's property names as the keyword arguments of the two pure Python clients; knows neither library.

A table says which properties a client has, and how a value is read. A property that is not in the table is refused by
name. Shown by tests/workloads/test_workloads_clients.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from workloads.clients.protocol import PropertyError, is_true, no_such_property
from workloads.clients.security import TokenProvider, is_security, python_security
from workloads.clients.values import Scope, check_values

Convert = Callable[[str], object]
Assignor = TypeVar("Assignor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyword:
    """One property: the library's argument, and how its text becomes a value (ValueError: the text is not one). Without
    an argument the text is only checked, because the library cannot do anything else."""

    argument: str | None
    convert: Convert


def number(text: str) -> int:
    return int(text)


def text(value: str) -> str:
    return value


def boolean(value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return is_true(value)


def acks(value: str) -> int | str:
    if value not in ("all", "-1", "0", "1"):
        raise ValueError("expected all, 1 or 0")
    return "all" if value in ("all", "-1") else int(value)


def compression(value: str) -> str | None:
    if value not in ("none", "gzip", "snappy", "lz4", "zstd"):
        raise ValueError("expected none, gzip, snappy, lz4 or zstd")
    return None if value == "none" else value


_OF_KAFKA: Final = (number, text, boolean, acks, compression)  # the others have a reason of their own to refuse


def same(names: str, convert: Convert) -> dict[str, Keyword]:
    """Properties whose argument has the same name with underscores."""
    return {name: Keyword(argument=name.replace(".", "_"), convert=convert) for name in names.split()}


def keyword_arguments(
    client: str,
    scope: Scope,
    properties: Mapping[str, str],
    table: Mapping[str, Keyword],
    refused: Mapping[str, str],
    provider: TokenProvider,
) -> dict[str, object]:
    """PropertyError for the first property that is refused, unknown, or has a value that cannot be read.

    `refused` says for each property why this client does not have it and what to do instead.
    """
    security = {name: value for name, value in properties.items() if is_security(name)}
    arguments = python_security(client, security, provider)
    for name, value in properties.items():
        if is_security(name):
            continue
        if name in refused:
            raise PropertyError(client, name, refused[name])
        if name not in table:
            raise no_such_property(client, name, table, "the library has no such setting")
        keyword = table[name]
        if keyword.convert in _OF_KAFKA:
            check_values(client, scope, {name: value})
        try:
            converted = keyword.convert(value)
        except ValueError as error:
            raise PropertyError(client, name, f"got {value!r}: {error}") from error
        if keyword.argument is not None:
            arguments[keyword.argument] = converted
    return arguments


def shown(value: object) -> str:
    """The value of an argument as Kafka writes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "all" if value in (-1, "all") else str(value)


def without_assignor(
    client: str, properties: Mapping[str, str], known: Mapping[str, Assignor]
) -> tuple[dict[str, str], Assignor | None]:
    """(the properties without partition.assignment.strategy, the library's own form of it). `known` is by Java's class;
    PropertyError for another one."""
    rest = dict(properties)
    strategy = rest.pop("partition.assignment.strategy", None)
    if strategy is None:
        return rest, None
    if strategy not in known:
        raise PropertyError(
            client, "partition.assignment.strategy", f"got {strategy!r}, expected one of {', '.join(known)}"
        )
    return rest, known[strategy]
