"""YAML text with the place of every key, so that an error can name file, line and the nearest right key.

This module reads YAML (ruamel.yaml, YAML 1.2: `no` is a string), applies dotted `--set` overrides, and turns pydantic's
errors into sentences. It does not know what a suite means. Shown by tests/harness/test_harness_suite.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from harness.errors import UsageError
from harness.foreign_names import ours_for
from runlog.files.expected import expectation
from runlog.files.nearest import nearest_name
from runlog.files.redaction import hidden_assignment, hidden_document, hidden_text
from runlog.files.user_files import UserFileError, load_yaml, read_text

_ERRORS_SHOWN_MAX: Final = 12
_SHOWN_CHARACTERS_MAX: Final = 200  # A message shows no more of a value.
_FILES_LOOKED_AT_MAX: Final = 1_000  # in a directory with more files, a misspelt name gets no suggestion
_ADVICE: Final = "; did you mean "
_KIN_CHARACTERS: Final = 7  # if no name is near, only names that share this many first letters are suggested
_PARSED_MAX: Final = 100  # texts: more than the suites and scenarios that come with the package
_ModelT = TypeVar("_ModelT", bound=BaseModel)
_Location = tuple[str | int, ...]


@dataclass(slots=True, kw_only=True)
class Source:
    """A parsed document: plain data, and the line of each key and item. `overridden` holds what came by --set."""

    name: str
    data: dict[str, Any]  # whatever YAML allows
    lines: dict[_Location, int]
    overridden: dict[_Location, str] = field(default_factory=dict)
    directory: Path | None = None  # where the document lies, if that is a directory on disk

    def place_of(self, location: _Location) -> str:
        """`file:line`, or the option that set it. For an absent key, the place of the nearest enclosing key."""
        for length in range(len(location), -1, -1):
            prefix = location[:length]
            if prefix in self.overridden:
                return f"--set {self.overridden[prefix]}"
            if prefix in self.lines:
                return f"{self.name}:{self.lines[prefix]}"
        return self.name


def read_source(path: Path) -> Source:
    if problem := file_problem(path):
        raise UsageError(problem)
    try:
        text = read_text(path)
    except UserFileError as error:
        raise UsageError(error.at(path)) from error
    source = parse_source(text, str(path))
    source.directory = path.parent
    return source


def file_problem(path: Path) -> str:
    """Why this cannot be the wanted file, with the nearest one that exists. Empty if it can be."""
    try:
        if path.is_dir():
            return f"{path}: is a directory, expected a file"
        if path.exists():
            return ""
        if not path.parent.is_dir():
            return f"{path}: no such file: there is no directory {path.parent.absolute()}"
        beside = [entry.name for entry in islice(path.parent.iterdir(), _FILES_LOOKED_AT_MAX) if entry.is_file()]
    except OSError as error:
        return f"{path}: cannot be read: {error}"
    near = nearest_name(path.name, beside)
    return f"{path}: no such file in {path.parent.absolute()}" + (f"; did you mean {near!r}?" if near else "")


def parse_source(text: str, name: str) -> Source:
    if name.endswith(".py"):
        raise UsageError(
            f"{name}: is a Python file, expected a suite in YAML. Users of a Locust file run beside the load of a "
            f"suite or a scenario, with --set workload.locust.file={name}. Without the harness `locust -f` runs it "
            "against the addresses that `harness cluster up` prints (docs/start/coming-from.md)"
        )
    try:
        data, lines = _parsed(text)
    except UserFileError as error:
        raise UsageError(error.at(name)) from error
    return Source(name=name, data=deepcopy(data), lines=dict(lines))


@lru_cache(maxsize=_PARSED_MAX)
def _parsed(text: str) -> tuple[dict[str, Any], dict[_Location, int]]:
    """Data and lines. They are cached, because one command may need a text several times, and parsing takes up to 0.1
    s. Callers must copy them, because `--set` writes into them."""
    document = load_yaml(text, YAML(typ="rt", pure=True))
    if not isinstance(document, CommentedMap):
        raise UserFileError(f"expected a mapping of keys, got {_kind(document)}", 1)
    lines: dict[_Location, int] = {(): 1}
    return _plain(document, (), lines), lines


def _plain(node: Any, location: _Location, lines: dict[_Location, int]) -> Any:
    """ruamel's containers and scalars as plain Python, noting lines (from 1) on the way."""
    if isinstance(node, CommentedMap):
        result: dict[str, Any] = {}
        for key, value in node.items():
            inner = (*location, str(key))
            lines[inner] = node.lc.key(key)[0] + 1 if node.lc.data and key in node.lc.data else lines[location]
            result[str(key)] = _plain(value, inner, lines)
        return result
    if isinstance(node, CommentedSeq):
        items = []
        for index, value in enumerate(node):
            inner = (*location, index)
            lines[inner] = node.lc.item(index)[0] + 1
            items.append(_plain(value, inner, lines))
        return items
    if isinstance(node, bool) or node is None:
        return node
    for plain_type in (int, float, str):
        if isinstance(node, plain_type):
            return plain_type(node)
    return str(node)


def _kind(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else type(value).__name__


# --- overrides ------------------------------------------------------------------------------------------------------


def parse_override(text: str) -> tuple[str, Any]:
    """`key=value`; the value is read as YAML, so 5 is a number, [1, 2] a list, and quotes keep a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set {hidden_assignment(text)}: expected key=value")
    try:
        loaded = load_yaml(value, YAML(typ="rt", pure=True)) if value.strip() else ""
        return key.strip(), _plain(loaded, (), {(): 1})
    except UserFileError as error:
        shown = hidden_assignment(text)[:_SHOWN_CHARACTERS_MAX]
        raise UsageError(f"--set {shown}: the value is {hidden_text(error.problem)}") from error


def apply_overrides(source: Source, overrides: Iterable[str]) -> None:
    """Change the document as `--set` says. Dots separate keys, but Kafka's own keys contain dots, so the longest key
    wins.

    Every enclosing key must be a mapping or a list in the document, or be absent. Validation finds a wrong last key.
    """
    for text in overrides:
        dotted, value = parse_override(text)
        _set(source, dotted.split("."), value, hidden_assignment(text))


# Mappings whose keys are Kafka's names. What follows them is one key, with all its dots.
_KAFKA_NAMED: Final = ("settings", "properties", "config", "baseline", "vary", "consumer_properties")


def _set(source: Source, parts: list[str], value: Any, text: str) -> None:
    node: Any = source.data
    location: _Location = ()
    while True:
        key, rest = _next_key(node, parts, location, text)
        location = (*location, key)
        if not rest:
            node[key] = value
            source.overridden[location] = text
            return
        if isinstance(node, dict) and not isinstance(node.get(key), dict | list):
            if node.get(key) is not None:
                raise UsageError(
                    f"--set {text}: {'.'.join(map(str, location))} is {_shown(key, node[key])}, not a mapping"
                )
            node[key] = {}
            source.overridden.setdefault(location, text)
        node, parts = node[key], rest


def _next_key(node: Any, parts: list[str], location: _Location, text: str) -> tuple[Any, list[str]]:
    if isinstance(node, list):
        if not parts[0].isdigit() or int(parts[0]) >= len(node):
            place = ".".join(map(str, location))
            raise UsageError(f"--set {text}: {place} is a list of {len(node)}; expected an index, got {parts[0]!r}")
        return int(parts[0]), parts[1:]
    for length in range(len(parts), 0, -1):
        joined = ".".join(parts[:length])
        if joined in node:
            return joined, parts[length:]
    if location and location[-1] in _KAFKA_NAMED:
        return ".".join(parts), []
    return parts[0], parts[1:]


# --- validation -----------------------------------------------------------------------------------------------------


def validate(source: Source, model: type[_ModelT]) -> _ModelT:
    """The document as a model. UsageError lists each problem with its place, what was expected, what was got."""
    try:
        return model.model_validate(source.data)
    except ValidationError as error:
        details = error.errors(include_url=False)
        lines = [explain(source, model, detail) for detail in details[:_ERRORS_SHOWN_MAX]]
        if len(details) > _ERRORS_SHOWN_MAX:
            lines.append(f"… and {len(details) - _ERRORS_SHOWN_MAX} more")
        raise UsageError("\n".join(lines)) from error


def explain(source: Source, model: type[BaseModel], detail: Mapping[str, Any]) -> str:
    """One pydantic error as `place: key: sentence`."""
    location = tuple(part for part in detail["loc"] if not str(part).startswith(("function-", "<")))
    place = source.place_of(location)
    name = ".".join(str(part) for part in location)
    if detail["type"] == "extra_forbidden":
        allowed = keys_allowed_at(model, location[:-1])
        ours = ours_for(str(location[-1]))
        advice = f"; here it is {ours}" if ours else nearest(str(location[-1]), allowed)
        return f"{place}: {name}: no such key{advice}"
    if detail["type"] == "missing":
        return f"{place}: {name}: this key is required"
    message, mark, advice = expectation(detail).partition(_ADVICE)
    got = detail.get("input")
    if not location and detail["type"] == "value_error":  # keys that do not fit together: the sentence names them
        return f"{_place_of_several(source, message)}: {message}"
    if detail["type"] == "value_error" and isinstance(got, dict | list):
        return f"{place}: {name}: {message}"  # the sentence is ours and already names the wrong key
    message += _in_our_unit(str(location[-1]) if location else "", got)
    shown = f", got {_shown(name, got)}" if not isinstance(got, dict | list) else f", got {_kind(got)}"
    return f"{place}: {name or 'the whole document'}: {message}{shown}{mark}{advice}"


def _place_of_several(source: Source, message: str) -> str:
    """The place of a sentence that names several keys: the options that set one of them, otherwise the file."""
    options = [
        f"--set {text}" for location, text in source.overridden.items() if ".".join(map(str, location)) in message
    ]
    return ", ".join(dict.fromkeys(options)) or source.place_of(())


_UNITS: Final[Mapping[str, Mapping[str, float]]] = {
    "_ms": {"ms": 1, "s": 1_000, "sec": 1_000, "m": 60_000, "min": 60_000},
    "_bytes": {"b": 1, "kb": 1_024, "k": 1_024, "kib": 1_024, "mb": 1_048_576, "m": 1_048_576, "mib": 1_048_576},
    "_per_s": {"k": 1_000, "/s": 1, "m": 1_000_000},
}


def _in_our_unit(key: str, got: object) -> str:
    """The number in the unit of the key, if a value has a unit, for example 10s for a key in milliseconds. Otherwise
    empty."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z/]+)\s*", got) if isinstance(got, str) else None
    factors = next((own for ending, own in _UNITS.items() if key.endswith(ending)), {})
    factor = factors.get(found[2].lower()) if found else None
    return f" (the unit stands in the name of the key: {float(found[1]) * factor:g})" if found and factor else ""


def _shown(name: object, value: object) -> str:
    return repr(hidden_document(value, str(name)))


def nearest(word: str, candidates: Sequence[str]) -> str:
    """`; did you mean X?`, or all choices if nothing is near."""
    near = nearest_name(word, candidates)
    if near:
        return f"{_ADVICE}{near!r}?"
    kin = [one for one in candidates if one.startswith(word[:_KIN_CHARACTERS])] if len(word) > _KIN_CHARACTERS else []
    candidates = kin or candidates
    return f"; expected one of {', '.join(sorted(candidates))}" if candidates else ""


def keys_allowed_at(model: type[BaseModel], location: _Location) -> list[str]:
    """The keys that the model at this place takes; empty where keys are free."""
    current: Any = model
    for part in location:
        if isinstance(part, int):
            continue
        info = next(
            (
                candidate
                for name, candidate in getattr(current, "model_fields", {}).items()
                if part in (name, candidate.alias)
            ),
            None,
        )
        if info is None:
            continue  # the tag of a union, or a key of a free mapping
        current = _model_inside(info.annotation)
        if current is None:
            return []
    fields = getattr(current, "model_fields", {})
    return [info.alias or name for name, info in fields.items()]


def _model_inside(annotation: Any) -> Any:
    """The first pydantic model within `X | None`, list[X], dict[str, X], ..."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _model_inside(argument)
        if found is not None:
            return found
    return None
