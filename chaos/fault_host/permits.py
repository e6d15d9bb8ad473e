"""Permits: what the operator of a broker's host lets the harness do to the brokers there. A YAML file on that host.

The harness never sees this file and writes nothing in it. It only names a broker id and an action. Only this file says
which process that is, how it is started and where its log is. So the file is trusted only if nobody but its owner (our
user, or root) may write it. Shown by tests/chaos/test_chaos_fault_host_permits.py.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError, field_validator, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from chaos.fault_host.proxy_permits import ProxyName, ProxyPermit, known_words, shared_problem
from chaos.faults import FAULTS
from chaos.fields import Duration, StrictModel

# What the faults of brokers need (chaos/faults): kill, terminate and pause.
BROKER_ACTIONS: Final = tuple(
    dict.fromkeys(
        spec.host_permit.word for spec in FAULTS.values() if spec.target_kind == "broker" and spec.host_permit
    )
)
FILE_BYTES_MAX: Final = 1 << 20
BROKERS_MAX: Final = 64  # on one host
PROXIES_MAX: Final = 256  # on one host
_Word = Annotated[str, Field(min_length=1, max_length=4_096)]
_Command = Annotated[tuple[_Word, ...], Field(min_length=1, max_length=200)]


class PermitsError(ValueError):
    """The file cannot be used. The message is for the operator."""


class ProcessPermit(StrictModel):
    """How the broker's process is found. The pid comes from a file or from a command. The process with this pid must
    match the other fields."""

    pid_file: Path | None = Field(default=None, description="holds its pid; must not be older than the process")
    pid_command: _Command | None = Field(
        default=None,
        description="prints its pid, or 0 or nothing if it does not run, e.g. "
        "[systemctl, show, --property=MainPID, --value, kafka.service]",
    )
    command_has: str = Field(min_length=3, max_length=1_000, description="its command line contains this text")
    user: str | None = Field(default=None, max_length=100, description="its user; without it any")

    @model_validator(mode="after")
    def _one_way(self) -> ProcessPermit:
        if (self.pid_file is None) == (self.pid_command is None):
            raise ValueError("give either pid_file or pid_command")
        if self.pid_file is not None and not self.pid_file.is_absolute():
            raise ValueError(f"pid_file {self.pid_file} is no absolute path")
        return self


class BrokerPermit(StrictModel):
    process: ProcessPermit
    allow: tuple[str, ...] = Field(default=(), description=", ".join(BROKER_ACTIONS))
    start: _Command | None = Field(default=None, description="starts the broker on its old data; its first word a path")
    start_within: Duration = Field(default=120_000, description="until its process is there")
    stop_within: Duration = Field(default=60_000, description="for a clean stop")
    paused_at_most: Duration = Field(default=300_000, description="then the worker lets it go on by itself")
    down_at_most: Duration = Field(default=600_000, description="then the worker starts it by itself")
    start_when_lost: bool = Field(
        default=True, description="whether the worker starts it by itself when the harness is lost, or leaves it down"
    )
    log_dirs: tuple[Path, ...] = Field(
        default=(), max_length=64, description="log.dirs of the broker, to read what a dead leader had"
    )

    @field_validator("allow")
    @classmethod
    def _are_known(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        return known_words(words, BROKER_ACTIONS)

    @model_validator(mode="after")
    def _can_be_undone(self) -> BrokerPermit:
        ends = sorted({"kill", "terminate"} & set(self.allow))
        if ends and self.start is None:
            raise ValueError(f"allow has {', '.join(ends)}: give `start`, the command that starts the broker again")
        if self.start is not None and not Path(self.start[0]).is_absolute():
            raise ValueError(f"start: the first word is a program, with its absolute path, got {self.start[0]!r}")
        if wrong := [str(path) for path in self.log_dirs if not path.is_absolute()]:
            raise ValueError(f"log_dirs: no absolute path: {', '.join(wrong)}")
        return self


class Permits(StrictModel):
    """The content of the file."""

    lost_after: Annotated[Duration, Field(ge=2_000, le=300_000)] = Field(
        default=10_000, description="without a word of the harness for so long, everything is healed"
    )
    brokers: dict[Annotated[int, Field(ge=0, le=2**31 - 1)], BrokerPermit] = Field(
        default_factory=dict, max_length=BROKERS_MAX, description="by broker id (node.id)"
    )
    proxies: dict[ProxyName, ProxyPermit] = Field(
        default_factory=dict, max_length=PROXIES_MAX, description="that run here, by a name of yours"
    )
    proxies_outlive_worker: bool = Field(
        default=True, description="the brokers' links go through them, so they stay when this worker ends"
    )

    @model_validator(mode="after")
    def _is_of_use(self) -> Permits:
        if not self.brokers and not self.proxies:
            raise ValueError("give `brokers`, `proxies` or both")
        if problem := shared_problem(self.proxies):
            raise ValueError(problem)
        return self


def read_permits(path: Path) -> Permits:
    """Read the file. Raises PermitsError, which says what is wrong and where in the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise PermitsError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise PermitsError(f"{path}: is no plain file")
        if found.st_uid not in (0, os.getuid()):
            raise PermitsError(f"{path}: belongs to user {found.st_uid}: it must be yours or root's")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermitsError(f"{path}: others can write it (mode {stat.S_IMODE(found.st_mode):o}): chmod go-w {path}")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(FILE_BYTES_MAX + 1)
    finally:
        os.close(descriptor)
    if len(data) > FILE_BYTES_MAX:
        raise PermitsError(f"{path}: is larger than {FILE_BYTES_MAX} bytes")
    try:
        return parse_permits(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise PermitsError(f"{path}: is no text: {error}") from error
    except PermitsError as error:
        raise PermitsError(f"{path}: {error}") from error


def parse_permits(text: str) -> Permits:
    try:
        document: Any = YAML(typ="safe", pure=True).load(StringIO(text))
    except YAMLError as error:
        raise PermitsError(f"is no YAML: {' '.join(str(error).split())[:500]}") from error
    if not isinstance(document, Mapping):
        raise PermitsError("expected `brokers:` with a broker id for each broker of this host, or `proxies:`")
    try:
        return Permits.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise PermitsError(f"{place}: {first['msg']}" if place else first["msg"]) from error
