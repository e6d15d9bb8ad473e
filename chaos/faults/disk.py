"""Faults of a broker's disk: it is full, failing, read-only or slow, or it only pretends to sync.

In the reference broker they act through its own storage, which reads a control file (`broker/log/disk_faults.py`). In
an Apache Kafka process they act through a library between the process and its C library (`chaos/interposer`). So no
privilege is needed, and the n-th call can be chosen exactly. Proved by the number of calls that were refused, delayed
or lost.

An Apache Kafka broker that cannot write stops itself if it has only one log directory. The reference broker takes the
partition offline and continues. With `directories: partition` the fault strikes only the log directory that holds the
partition. The broker then goes on with its other directories, on both clusters. In all cases the log is available again
only after the next start, so healing starts the broker again.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from chaos.faults.base import FaultContext, FaultRun, FaultSpec, Parameter, Proof
from chaos.faults.processes import start_again
from chaos.interposer import build, fault_page
from chaos.ports.cluster import ClusterPort

STOP_WITHIN_S = 5.0
ALL_DIRECTORIES, ONE_DIRECTORY = "all", "partition"  # values of `directories`
Rules = Callable[[Mapping[str, Parameter]], list[dict[str, object]]]


class NoDiskControl(Exception):
    """The broker has no storage that can be told to fail."""


class Control(Protocol):
    """What controls a broker's storage."""

    def set(self, rules: Sequence[Mapping[str, object]]) -> None: ...
    def clear(self) -> None: ...
    def seen(self) -> Mapping[str, object]:
        """Calls that were refused, delayed or lost since `set`."""


class ControlFile:
    """The control of the reference broker's own storage."""

    def __init__(self, path: Path) -> None:
        self._path, self._seen = path, path.with_name(path.name + ".seen")

    def set(self, rules: Sequence[Mapping[str, object]]) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._seen.unlink()
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"faults": list(rules)}), encoding="utf-8")
        os.replace(temporary, self._path)

    def clear(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    def seen(self) -> Mapping[str, object]:
        try:
            found: dict[str, object] = json.loads(self._seen.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return found


class ControlPage:
    """The control of the interposer in an Apache Kafka process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def set(self, rules: Sequence[Mapping[str, object]]) -> None:
        fault_page.set_rules(self._path, [_with_real_path(rule) for rule in rules])

    def clear(self) -> None:
        fault_page.set_rules(self._path, [])

    def seen(self) -> Mapping[str, object]:
        return fault_page.done(self._path)


def _with_real_path(rule: Mapping[str, object]) -> Mapping[str, object]:
    """The interposer sees a file under the path that the kernel gives it."""
    return {**rule, "path": f"{Path(str(rule['path'])).resolve()}/"} if "path" in rule else rule


def control_of(port: ClusterPort, broker: int) -> Control:
    """Raises NoDiskControl."""
    if (control := port.files.disk_control(broker)) is not None:
        return ControlFile(control)
    if (interposed := port.files.fault_page(broker)) is not None:
        return ControlPage(interposed)
    raise NoDiskControl(
        f"broker {broker}'s disk cannot be told to fail: it is neither a reference broker with harness.disk.faults nor "
        "an Apache Kafka process with the interposer"
    )


class DiskFault:
    def __init__(self, rules: Rules, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._rules = rules(parameters)
        self._is_limited = parameters["directories"] == ONE_DIRECTORY
        self._struck: dict[int, Path] = {}  # the log directories, if the fault is limited to them
        self._controls: dict[int, Control] = {}

    def inject(self) -> None:
        for broker in self._context.brokers:
            self._controls[broker] = control_of(self._context.port, broker)
            self._controls[broker].set(self._rules_for(broker))

    def _rules_for(self, broker: int) -> list[dict[str, object]]:
        if not self._is_limited:
            return self._rules
        of = self._context.of
        log = self._context.port.files.partition_directory(broker, of.topic, of.partition)
        if log is None:
            raise NoDiskControl(f"broker {broker} has no log of {of.topic}-{of.partition}, which tells the directory")
        self._struck[broker] = log.parent
        return [{**rule, "path": f"{log.parent}/"} for rule in self._rules]

    def heal(self) -> None:
        for broker, control in self._controls.items():
            has_failed = bool(control.seen()) and any("error" in rule for rule in self._rules)
            if has_failed and isinstance(control, ControlPage) and not self._is_limited:
                self._await_end(broker)
            control.clear()
            if has_failed and self._context.port.brokers.is_running(broker):
                self._context.port.processes.terminate(broker)
            start_again(self._context.port, broker)

    def _await_end(self, broker: int) -> None:
        """A broker that met an error is about to stop. It must not be started again before that."""
        deadline = time.monotonic() + STOP_WITHIN_S
        while self._context.port.brokers.is_running(broker) and time.monotonic() < deadline:
            time.sleep(0.05)

    def prove(self) -> Proof:
        calls = {f"broker {broker}": control.seen() for broker, control in self._controls.items()}
        struck = {f"broker {broker}": str(directory) for broker, directory in self._struck.items()}
        return Proof(
            is_effective=bool(calls) and all(calls.values()),
            detail={"rules": self._rules, "calls": calls, **({"directories": struck} if struck else {})},
        )


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
    if parameters["directories"] not in (ALL_DIRECTORIES, ONE_DIRECTORY):
        return f"directories is {parameters['directories']!r}, expected {ALL_DIRECTORIES} or {ONE_DIRECTORY}"
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
        parameters={**parameters, "directories": ALL_DIRECTORIES},
        problem=_problem,
        is_interposed=True,
        host_problem=build.problem_of_engine,
        is_proved_at_heal=True,  # the fault shows only at the next call on the disk
    )


SPECS: tuple[FaultSpec, ...] = (
    _spec("disk_full", "disk full", "#784212", _full, {"skip": 0}),
    _spec("disk_error", "disk errors", "#922b21", _error, {"call": "write", "error": "EIO", "skip": 0}),
    _spec("disk_read_only", "disk read-only", "#6e2c00", _read_only, {}),
    _spec("disk_slow", "disk slow", "#9a7d0a", _slow, {"call": "write", "delay_ms": 200}),
    _spec("disk_lost_sync", "fsync not done", "#4a235a", _lost_sync, {}),
)
