"""Where the Kafka settings of a suite or a scenario stand, and what is wrong with each, whatever the others are.

The document need not be valid, so that a mistake in its shape hides none in its settings: `validated` tells both at
once. Pure except for the clients' libraries, which are imported and asked. Shown by
tests/harness/test_harness_setting_places.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel

from harness.access_settings import AccessCheck, access_check
from harness.errors import UsageError
from harness.foreign_names import kafkas_for_setting
from harness.suite_source import Source, validate
from harness.unknown_settings import settings_problem
from runlog.files.setting_text import setting_text
from workloads.clients import check_consumer_properties, check_properties, is_client, nearest_properties
from workloads.clients.protocol import ClientError, PropertyError

Scope = Literal["producer", "consumer", "group member", "topic", "broker"]
CLIENT: Final = "client"  # what `vary` names to vary the client itself
_PARTS_OF_A_SWEEP: Final = ("workload.", "topic.", "cluster.")  # what `vary` names beside client settings
_CLUSTER: Final = ("topic", "broker")
_ModelT = TypeVar("_ModelT", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedSetting:
    """One setting as it stands in a document."""

    location: tuple[str | int, ...]
    scope: Scope
    name: str
    value: str


def validated(source: Source, model: type[_ModelT]) -> _ModelT:
    """The document as a model. UsageError lists what is wrong with its shape, and then with its settings."""
    try:
        return validate(source, model)
    except UsageError as error:
        raise UsageError("\n".join([str(error), *_beside(source, str(error))])) from error


def _beside(source: Source, told: str) -> list[str]:
    """Problems of settings at places that are not told of."""
    data = source.data
    sweep = data.get("sweep")
    client = _known_client(data.get("client"), otherwise="reference")
    sweep_client = _known_client(sweep.get("client") if isinstance(sweep, Mapping) else None, otherwise=client)
    is_own = data.get("engines") != ["external"]
    access = access_check(is_own=is_own, has_tls=True)
    found = problems_alone(source, client, sweep_client, access=access, has_own_broker=is_own, has_sweep=True)
    places = {line.partition(": ")[0] for line in told.splitlines()}
    return [line for line in found if line.partition(": ")[0] not in places]


def _known_client(given: object, *, otherwise: str) -> str:
    """A wrong client is told of when the shape is right."""
    return given if isinstance(given, str) and is_client(given) else otherwise


def problems_alone(
    source: Source, client: str, sweep_client: str, *, access: AccessCheck, has_own_broker: bool, has_sweep: bool
) -> dict[str, str]:
    """Each problem in words, with its place, and the name of its setting."""
    problems: dict[str, str] = {}
    for setting in placed_settings(source.data):
        if setting.location[0] in ("sweep", "search") and not has_sweep:
            continue
        if setting.scope in _CLUSTER and not has_own_broker:
            continue
        own_client = sweep_client if setting.location[0] == "sweep" else client
        problem = "" if setting.scope in _CLUSTER else access(setting.name)
        if problem := problem or _alone(own_client, setting, stands_in=not has_sweep):
            problems[f"{source.place_of(setting.location)}: {problem}"] = setting.name
    return problems


# --- where settings stand -------------------------------------------------------------------------------------------


def placed_settings(document: Mapping[str, Any]) -> Iterator[PlacedSetting]:
    """All settings of a suite or a scenario that are where settings belong. What is of another type is left out."""
    for location, scope in _mappings(document):
        node: Any = document
        for part in location:
            node = node[part]
        for name, value in node.items():
            yield from _placed((*location, name), scope, name, value)
    sweep = document.get("sweep")
    vary = sweep.get("vary") if isinstance(sweep, Mapping) else None
    yield from _varied(vary if isinstance(vary, Mapping) else {})


def _placed(location: tuple[str | int, ...], scope: Scope, name: str, value: Any) -> Iterator[PlacedSetting]:
    with contextlib.suppress(ValueError):  # no scalar: the model refuses it
        yield PlacedSetting(location=location, scope=scope, name=name, value=setting_text(value))


def _mappings(document: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Scope]]:
    """The mappings of settings, by what they belong to."""
    wanted: tuple[tuple[tuple[str, ...], Scope], ...] = (
        (("properties",), "producer"),
        (("sweep", "baseline"), "producer"),
        (("search", "properties"), "producer"),
        (("topic", "config"), "topic"),
        (("cluster", "settings"), "broker"),
        (("broker_settings",), "broker"),
    )
    yield from _present(document, (), wanted)
    cases = document.get("cases")
    for name, case in cases.items() if isinstance(cases, Mapping) else ():
        own: tuple[tuple[tuple[str, ...], Scope], ...] = (
            (("properties",), "producer"),
            (("topic_config",), "topic"),
            (("broker_settings",), "broker"),
        )
        if isinstance(case, Mapping):
            yield from _present(case, ("cases", name), own)
    workload = document.get("workload")
    readers = workload.get("readers") if isinstance(workload, Mapping) else None
    for index, reader in enumerate(readers if isinstance(readers, list) else ()):
        if not isinstance(reader, Mapping):
            continue
        scope: Scope = "group member" if reader.get("mode") == "group" else "consumer"
        yield from _present(reader, ("workload", "readers", index), ((("properties",), scope),))


def _present(
    node: Mapping[str, Any], at: tuple[str | int, ...], wanted: Sequence[tuple[tuple[str, ...], Scope]]
) -> Iterator[tuple[tuple[str | int, ...], Scope]]:
    for path, scope in wanted:
        inner: Any = node
        for part in path:
            inner = inner.get(part) if isinstance(inner, Mapping) else None
        if isinstance(inner, Mapping):
            yield (*at, *path), scope


def _varied(vary: Mapping[str, Any]) -> Iterator[PlacedSetting]:
    for name, values in vary.items():
        if name.startswith(_PARTS_OF_A_SWEEP):
            continue
        if name == CLIENT:
            yield from _demanded(("sweep", "vary", name), values)
            continue
        at: tuple[str | int, ...] = ("sweep", "vary", name)
        if isinstance(values, Mapping):  # a range: its ends
            for end in ("from", "to"):
                yield from _placed((*at, end), "producer", name, values.get(end))
            continue
        for index, value in enumerate(values if isinstance(values, list) else ()):
            if not isinstance(value, Mapping):
                yield from _placed((*at, index), "producer", name, value)
                continue
            yield from _placed((*at, index, "value"), "producer", name, value.get("value"))
        yield from _demanded(at, values)


def _demanded(at: tuple[str | int, ...], values: Any) -> Iterator[PlacedSetting]:
    """What values bring with them."""
    for index, value in enumerate(values if isinstance(values, list) else ()):
        demanded = value.get("with") if isinstance(value, Mapping) else None
        for other, wanted in demanded.items() if isinstance(demanded, Mapping) else ():
            yield from _placed((*at, index, "with", other), "producer", other, wanted)


# --- what is wrong with them ----------------------------------------------------------------------------------------


def _alone(client: str, setting: PlacedSetting, *, stands_in: bool) -> str:
    """What is wrong with one setting, whatever the others are. Empty if nothing."""
    given: Mapping[str, str] = {setting.name: setting.value}
    if stands_in and setting.scope == "producer":
        with contextlib.suppress(ClientError):
            given, _ = nearest_properties(client, given, as_they_are=())
    if kafkas := kafkas_for_setting(setting.name):
        return f"{setting.name} is Spring's name; here it is Kafka's own: {kafkas}"
    if setting.scope == "topic" or setting.scope == "broker":
        return settings_problem(setting.scope, given)
    checks: dict[str, Callable[[], None]] = {
        "producer": lambda: check_properties(client, given),
        "consumer": lambda: check_consumer_properties(client, given, is_member=False),
        "group member": lambda: check_consumer_properties(client, given, is_member=True),
    }
    try:
        checks[setting.scope]()
    except PropertyError as error:
        # It is about another setting, so it belongs to the check of all of them together.
        return str(error) if error.name in (setting.name, "a property") else ""
    except ClientError:
        return ""  # the check of the cells reports a library that is not installed, once
    return ""
