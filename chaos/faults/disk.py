"""Faults of a broker's disk: full, failing, read-only, slow, or one that only says that it has synced.

They act through the reference broker's own storage, which looks at a control file (`broker/log/disk_faults.py`), so no
privilege is needed and the n-th call is meant exactly. Proved by the number of calls refused, delayed or lost.
A broker that cannot write stops itself, as Kafka's does with its last log directory; healing starts it again.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from chaos.faults.base import FaultContext, FaultRun, FaultSpec, Parameter, Proof

STOP_WITHIN_S = 5.0
Rules = Callable[[Mapping[str, Parameter]], list[dict[str, object]]]


class NoDiskControl(Exception):
    """The cluster's brokers have no storage that can be told to fail."""


class DiskFault:
    def __init__(self, rules: Rules, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._rules = rules(parameters)
        self._controls: dict[int, Path] = {}

    def inject(self) -> None:
        for broker in self._context.brokers:
            control = self._context.port.disk_control(broker)
            if control is None:
                raise NoDiskControl("disk faults act through the storage of reference brokers; this cluster has others")
            self._controls[broker] = control
            with contextlib.suppress(FileNotFoundError):
                _seen(control).unlink()
            temporary = control.with_suffix(".tmp")
            temporary.write_text(json.dumps({"faults": self._rules}), encoding="utf-8")
            os.replace(temporary, control)

    def heal(self) -> None:
        for broker, control in self._controls.items():
            self._await_end(broker, control)
            with contextlib.suppress(FileNotFoundError):
                control.unlink()
            if not self._context.port.is_running(broker):
                self._context.port.restart(broker)

    def _await_end(self, broker: int, control: Path) -> None:
        """A broker that met an error is about to stop: starting it again must not come before that."""
        if not _seen(control).exists() or not any("error" in rule for rule in self._rules):
            return
        deadline = time.monotonic() + STOP_WITHIN_S
        while self._context.port.is_running(broker) and time.monotonic() < deadline:
            time.sleep(0.05)

    def prove(self) -> Proof:
        calls: dict[str, object] = {}
        is_effective = bool(self._controls)
        for broker, control in self._controls.items():
            try:
                seen = json.loads(_seen(control).read_text(encoding="utf-8"))
            except (FileNotFoundError, ValueError):
                seen = {}
            calls[f"broker {broker}"] = seen
            is_effective &= bool(seen)
        return Proof(is_effective=is_effective, detail={"rules": self._rules, "calls": calls})


def _seen(control: Path) -> Path:
    return control.with_name(control.name + ".seen")


def _full(parameters: Mapping[str, Parameter]) -> list[dict[str, object]]:
    return [{"call": "write", "error": "ENOSPC", "skip": parameters["skip"]}]


def _error(parameters: Mapping[str, Parameter]) -> list[dict[str, object]]:
    return [{"call": parameters["call"], "error": parameters["error"], "skip": parameters["skip"]}]


def _read_only(parameters: Mapping[str, Parameter]) -> list[dict[str, object]]:
    return [{"call": call, "error": "EROFS"} for call in ("write", "truncate")]


def _slow(parameters: Mapping[str, Parameter]) -> list[dict[str, object]]:
    return [{"call": parameters["call"], "delay_ms": parameters["delay_ms"]}]


def _lost_sync(parameters: Mapping[str, Parameter]) -> list[dict[str, object]]:
    return [{"call": "sync", "lost": True}]


def _problem(parameters: Mapping[str, Parameter]) -> str | None:
    if parameters.get("call", "write") not in ("write", "sync", "truncate", "read", "any"):
        return f"call is {parameters['call']!r}, expected write, sync, truncate, read or any"
    return None


def _make(rules: Rules) -> Callable[[FaultContext, Mapping[str, Parameter]], FaultRun]:
    return partial(DiskFault, rules)


def _spec(name: str, label: str, colour: str, rules: Rules, parameters: Mapping[str, Parameter]) -> FaultSpec:
    return FaultSpec(
        name=name,
        label=label,
        colour=colour,
        target_kind="broker",
        default_target="leader",
        make=_make(rules),
        parameters=parameters,
        problem=_problem,
        is_proved_at_heal=True,  # it takes the next call on the disk to show
    )


SPECS: tuple[FaultSpec, ...] = (
    _spec("disk_full", "disk full", "#784212", _full, {"skip": 0}),
    _spec("disk_error", "disk errors", "#922b21", _error, {"call": "write", "error": "EIO", "skip": 0}),
    _spec("disk_read_only", "disk read-only", "#6e2c00", _read_only, {}),
    _spec("disk_slow", "disk slow", "#9a7d0a", _slow, {"call": "write", "delay_ms": 200}),
    _spec("disk_lost_sync", "fsync not done", "#4a235a", _lost_sync, {}),
)
