"""Requests that change settings at run time, and their answers. Values only, as in types.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    resource_type: int  # 2 topic, 4 broker, 32 group
    resource_name: str
    changes: Mapping[str, str | None]  # SET; None removes the override (DELETE)
    appends: Mapping[str, str] = field(default_factory=dict)  # APPEND to a list setting
    subtracts: Mapping[str, str] = field(default_factory=dict)  # SUBTRACT from a list setting
    replaces_all: bool = False  # AlterConfigs: overrides that it does not name are removed


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigs:
    """IncrementalAlterConfigs (KIP-339). With `replaces_all` it is the older AlterConfigs."""

    token: int
    resources: tuple[ConfigChange, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredConfig:
    resource_type: int
    resource_name: str
    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResponse:
    error_code: int
    resources: tuple[AlteredConfig, ...]
