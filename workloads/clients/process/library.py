"""Clients that are programs, by name: what `workloads.clients` offers of each, and how each is started.

A name is that of a shipped client (franz-go, kafkajs), or of a client in a version (`confluent==2.4.0`), or says
itself how the program is started: `./my-client`, or `process:COMMAND`. The harness builds the first two. It says so by
`use`, and by the plan's runtime to other processes. Shown by tests/workloads/test_workloads_process_load.py.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from workloads.clients.member_protocol import GroupMember, MemberListener, MemberSetup
from workloads.clients.process.build import RECIPES, Built, declares, from_runtime
from workloads.clients.process.load import ProcessConsumer, ProcessProducer, check_names, start
from workloads.clients.process.member import ProcessMember
from workloads.clients.process.messages import Ability, Ready
from workloads.clients.process.transacting import ProcessTransactionalProducer, lacks_transactions
from workloads.clients.process.versions.installing import has_version
from workloads.clients.protocol import ClientError, ClientSetup, OutcomeSink

PREFIX: Final = "process:"
SHIPPED: Final = tuple(RECIPES)
# What changes how a library works, and no guarantee. A scenario that is not about them runs without them.
_TUNING: Final = frozenset(
    {
        "batch.size", "buffer.memory", "delivery.timeout.ms", "linger.ms", "max.block.ms", "metadata.max.age.ms",
        "request.timeout.ms", "retry.backoff.ms",
    }
)  # fmt: skip


def shipped_with(ability: Ability) -> tuple[str, ...]:
    """The shipped clients whose programs declare it, whether they are built or not."""
    return tuple(name for name in SHIPPED if declares(name, ability))


def is_process(name: str) -> bool:
    return name in RECIPES or has_version(name) or is_command(name)


def is_command(name: str) -> bool:
    """Whether the name itself says how the client is started."""
    return name.startswith(PREFIX) or "/" in name


def command_of(name: str) -> Built:
    """Of a name that says it. ClientError if it is no command, or no such program."""
    try:
        words = shlex.split(name.removeprefix(PREFIX))
    except ValueError as error:
        raise ClientError(f"client {name}: {error}") from error
    if not words:
        raise ClientError(f"client {name}: no command, expected one like process:./my-client --flag")
    if "/" in words[0]:
        program = Path(words[0]).absolute()  # not resolved: the Python of an environment is a link out of it
        if not program.is_file():
            raise ClientError(f"client {name}: there is no program {program}")
        words[0] = str(program)
    return Built(command=tuple(words))


@functools.cache
def process_library(name: str) -> ProcessLibrary:
    return ProcessLibrary(name, command_of(name) if is_command(name) else None)


def use(name: str, built: Built) -> None:
    """In this process, the client is started like this."""
    process_library(name).built = built


class ProcessLibrary:
    """One client by its name. `built`: how it is started, where nothing else says so."""

    def __init__(self, name: str, built: Built | None = None) -> None:
        self._name, self.built = name, built
        self._ready: Ready | None = None

    def make_producer(self, setup: ClientSetup, sink: OutcomeSink) -> ProcessProducer:
        return ProcessProducer(self._name, self._command(setup.runtime), setup, sink)

    def make_transactional_producer(self, setup: ClientSetup, sink: OutcomeSink) -> ProcessTransactionalProducer:
        return ProcessTransactionalProducer(self._name, self._command(setup.runtime), setup, sink)

    def transactions_problem(self) -> str:
        """Empty also if it is not known yet: the program says it again when a producer is made."""
        if (ready := self._first_line()) is not None:
            return lacks_transactions(ready)
        if self._name in RECIPES and not declares(self._name, Ability.TRANSACTIONS):
            return f"its program does not declare `{Ability.TRANSACTIONS}`"
        return ""

    def make_consumer(self, setup: ClientSetup) -> ProcessConsumer:
        return ProcessConsumer(self._name, self._command(setup.runtime), setup)

    def make_member(self, setup: MemberSetup, listener: MemberListener) -> GroupMember:
        return ProcessMember(self._name, self._command(setup.runtime), setup, listener)

    def check_properties(self, properties: Mapping[str, str]) -> None:
        if (ready := self._first_line()) is not None:
            check_names(self._name, ready, "producer", properties)

    def check_consumer_properties(self, properties: Mapping[str, str], *, is_member: bool) -> None:
        if (ready := self._first_line()) is not None:
            check_names(self._name, ready, "consumer", properties)

    def nearest_properties(
        self, properties: Mapping[str, str], *, as_they_are: Collection[str]
    ) -> tuple[Mapping[str, str], Sequence[str]]:
        ready = self._first_line()
        if ready is None:
            return properties, ()
        left_out = [
            name
            for name in properties
            if name in _TUNING and name not in as_they_are and not ready.takes("producer", name)
        ]
        kept = {name: value for name, value in properties.items() if name not in left_out}
        return kept, [f"no {name}" for name in left_out]

    def _command(self, runtime: Mapping[str, str]) -> Built:
        found = from_runtime(runtime) or self.built
        if found is None:
            raise ClientError(f"client {self._name}: the plan's runtime does not say how it is started")
        return found

    def _first_line(self) -> Ready | None:
        """What the client declares; None if it is not known yet how it is started."""
        if self._ready is None and self.built is not None:
            peer = start(self._name, self.built)
            assert peer.conversation.ready is not None
            self._ready = peer.conversation.ready
            peer.end()
        return self._ready
