"""What a mutant puts in place takes the calls of what was there. Otherwise it would be caught for another reason."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from broker.mutants import MUTANTS, Patch


class _Recording(Patch):
    """Keeps what was set, with what was there."""

    def __init__(self) -> None:
        super().__init__()
        self.replaced: list[tuple[str, object, object]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        original = super().set(owner, name, value)
        self.replaced.append((name, original, value))
        return original


def _function(value: object) -> Callable[..., object] | None:
    """What runs; None for what is no function, such as a limit or a table."""
    if isinstance(value, property):
        return value.fget
    if isinstance(value, classmethod | staticmethod):
        return value.__func__
    return value if inspect.isfunction(value) else None


def _refused_call(original: Callable[..., object], wrong: Callable[..., object]) -> str:
    """A call that the original takes and the wrong one does not; empty if there is none. Callers give all parameters,
    or only those that must be given: by position, or by name after `self`."""
    parameters = list(inspect.signature(original).parameters.values())
    required = [each for each in parameters if each.default is each.empty]
    for given in (parameters, required):
        by_name = [each.name for each in given if each.kind is each.KEYWORD_ONLY]
        by_position = [each.name for each in given if each.kind is not each.KEYWORD_ONLY]
        ways = [(by_position, by_name), ([], by_position + by_name), (by_position[:1], by_position[1:] + by_name)]
        if not any(_takes(wrong, len(values), names) for values, names in ways):
            return ", ".join(each.name for each in given)
    return ""


def _takes(function: Callable[..., object], values: int, names: list[str]) -> bool:
    try:
        inspect.signature(function).bind(*[None] * values, **dict.fromkeys(names))
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_takes_the_calls_of_what_it_replaces(name: str) -> None:
    patch = _Recording()
    try:
        importlib.import_module(f"broker.mutants.{name}").apply(patch)
        assert patch.replaced
        for attribute, original, value in patch.replaced:
            was, wrong = _function(original), _function(value)
            assert (was is None) == (wrong is None), f"{attribute}: {original!r} became {value!r}"
            if was is not None and wrong is not None:
                assert not _refused_call(was, wrong), f"{attribute}: {_refused_call(was, wrong)}"
    finally:
        patch.undo()


def test_a_wrong_parameter_is_seen() -> None:
    def original(self: object, now_ms: int, *, is_complete: bool = False) -> None: ...

    assert not _refused_call(original, lambda self, now_ms, *, is_complete=False: None)
    assert not _refused_call(original, lambda *_, **__: None)
    assert _refused_call(original, lambda self: None)
    assert _refused_call(original, lambda self, now_ms, more, *, is_complete=False: None)
    assert _refused_call(original, lambda self, now_ms: None)
