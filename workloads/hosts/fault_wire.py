"""What a master and a fault host say to each other: typed, checked on receipt, bounded. No I/O, no Locust.

A *fault host* is a machine with brokers of somebody else's cluster, on which `harness worker … --allow-faults` runs.
The master names a broker id and an action. There is no field for a path, a command, a pid or a signal: what an action
means on that host is in a file of its operator (chaos/fault_host/permits.py). Shown by
tests/workloads/test_workloads_fault_hosts.py.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from workloads.hosts.wire import PROBLEM_CHARACTERS_MAX, Message, Name, Place

BROKERS_MAX: Final = 64  # on one host
PARTITIONS_MAX: Final = 1_000
EPOCHS_MAX: Final = 10_000  # of one partition
_Nanoseconds = Annotated[int, Field(ge=-(2**62), le=2**62)]
_Broker = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Pid = Annotated[int, Field(ge=1, le=1 << 22)]
_Ticks = Annotated[int, Field(ge=0, le=2**62)]
_Offset = Annotated[int, Field(ge=0, le=2**63 - 1)]

Action = Literal["look", "kill", "terminate", "pause", "resume", "start", "logs"]
Allowed = Literal["kill", "terminate", "pause"]


class BrokerOffer(Message):
    """What the operator permits with one broker."""

    broker: _Broker
    allow: tuple[Allowed, ...] = Field(default=(), max_length=3)
    has_logs: bool = False  # the log of a dead leader can be read


class FaultHello(Message):
    """A fault host presents itself, every other second."""

    KIND = "fault_hello"
    name: Name
    version: str = Field(max_length=64)
    brokers: tuple[BrokerOffer, ...] = Field(min_length=1, max_length=BROKERS_MAX)


class Ask(Message):
    """`number` names it: asked twice, it is done once."""

    KIND = "fault_ask"
    number: int = Field(ge=1, le=2**53)
    run_id: Place
    action: Action
    broker: _Broker
    topic: str = Field(default="", pattern=r"^([A-Za-z0-9._-]{1,249})?$")  # of logs
    partitions: int = Field(default=0, ge=0, le=PARTITIONS_MAX)
    begin_until_ns: _Nanoseconds  # by the clock of the fault host: what comes later is not begun


class ProcessSeen(Message):
    pid: _Pid
    start_ticks: _Ticks
    state: str = Field(default="", max_length=1)  # as in /proc; empty: it is gone


class Answer(Message):
    KIND = "fault_answer"
    number: int = Field(ge=1, le=2**53)
    run_id: Place
    is_done: bool
    is_refused: bool = False  # it is not on the list of that host
    is_unknown: bool = False  # not done, but it may still take effect
    problem: str = Field(default="", max_length=PROBLEM_CHARACTERS_MAX)
    from_ns: _Nanoseconds = 0  # by the clock there
    to_ns: _Nanoseconds = 0
    running: ProcessSeen | None = None
    processes: tuple[ProcessSeen, ...] = Field(default=(), max_length=64)
    epochs: dict[Annotated[int, Field(ge=0, le=PARTITIONS_MAX)], tuple[tuple[_Offset, _Offset, _Offset], ...]] = Field(
        default_factory=dict, max_length=PARTITIONS_MAX
    )


class FaultAgentConfig(Message):
    """What `harness worker … --allow-faults` tells its agent."""

    master_host: str
    master_port: int = Field(ge=1, le=65_535)
    key: dict[str, str]
    hello: FaultHello


class FaultHubConfig(Message):
    """What the harness tells its hub."""

    listen_host: str
    listen_port: int = Field(ge=1, le=65_535)
    key: dict[str, str]
    version: str
    run_id: Place
    t0_monotonic_ns: int


class Wanted(Message):
    """What the harness tells its hub to ask. The hub knows the host's clock, and adds until when it may be begun."""

    number: int = Field(ge=1, le=2**53)
    action: Action
    broker: _Broker
    topic: str = Field(default="", pattern=r"^([A-Za-z0-9._-]{1,249})?$")
    partitions: int = Field(default=0, ge=0, le=PARTITIONS_MAX)


class HostThere(Message):
    """What the hub tells the harness of one fault host."""

    hello: FaultHello
    silent_s: float
    clock_offset_us: float = 0.0  # clock of the fault host minus that of the harness
    clock_error_us: float = 0.0
    clock_problem: str = ""


class HostsThere(Message):
    event: Literal["hosts"] = "hosts"
    hosts: tuple[HostThere, ...] = ()
    refused: tuple[str, ...] = ()


class Told(Message):
    """The hub's answer for one ask, with its times on the harness's clock, each within `clock_error_us`."""

    event: Literal["answer"] = "answer"
    host: str
    answer: Answer
    from_us: int | None = None  # none: there is no bound for that host's clock
    to_us: int | None = None
    clock_error_us: float | None = None
    clock_problem: str = ""


def refused_ask(data: Any, problem: str) -> Answer | None:
    """The answer to a message that is no Ask; None if it has nothing to be answered by."""
    if not isinstance(data, dict):
        return None
    number, run_id = data.get("number"), data.get("run_id")
    if type(number) is not int or not isinstance(run_id, str):
        return None
    try:
        return Answer(
            number=number, run_id=run_id, is_done=False, is_refused=True, problem=problem[:PROBLEM_CHARACTERS_MAX]
        )
    except ValueError:
        return None
