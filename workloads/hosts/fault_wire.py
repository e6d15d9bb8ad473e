"""What a master and a fault host say to each other: typed, checked on receipt, bounded. No I/O, no Locust.

A *fault host* is a machine with brokers of somebody else's cluster, on which `harness worker … --allow-faults` runs.
The master names a broker id or a proxy, and an action. There is no field for a path, a command, a pid, a signal or an
address: what an action means on that host is in a file of its operator (chaos/fault_host/permits.py). Shown by
tests/workloads/test_workloads_fault_hosts.py.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from workloads.hosts.wire import PROBLEM_CHARACTERS_MAX, Message, Name, Place

BROKERS_MAX: Final = 64  # on one host
PARTITIONS_MAX: Final = 1_000
EPOCHS_MAX: Final = 10_000  # A partition has no more.
_Nanoseconds = Annotated[int, Field(ge=-(2**62), le=2**62)]
_Broker = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Pid = Annotated[int, Field(ge=1, le=1 << 22)]
_Ticks = Annotated[int, Field(ge=0, le=2**62)]
_Offset = Annotated[int, Field(ge=0, le=2**63 - 1)]

PROXIES_MAX: Final = 256  # on one host
LINKS_MAX: Final = 64  # A proxy carries no more.
# Words under `allow`. The faults say which words there are (chaos/faults). One that no fault needs does no harm.
ALLOWED_MAX: Final = 64
BrokerAction = Literal["look", "kill", "terminate", "pause", "resume", "start", "logs"]
ProxyAction = Literal["proxy_state", "proxy_cut", "proxy_join", "toxic_add", "toxic_remove", "probe"]
RequestAction = Literal["requests_begin", "requests_piece", "requests_end", "requests_forget"]
Action = BrokerAction | ProxyAction | RequestAction
REQUEST_ACTIONS: Final = frozenset({"requests_begin", "requests_piece", "requests_end", "requests_forget"})
PROXY_ACTIONS: Final = frozenset({"proxy_state", "proxy_cut", "proxy_join", "toxic_add", "toxic_remove", "probe"})
BREAKS: Final = frozenset({"kill", "terminate", "pause", "proxy_cut", "toxic_add"})  # the others look, or mend
Stream = Literal["upstream", "downstream"]
_Word = Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")]
_ToxicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")]
_LinkName = Annotated[str, Field(pattern=r"^(client|(internal|controller)-\d{1,10})-\d{1,10}$")]
# Kafka toxics know -1 ("any"), and texts: an API, a topic, a client id.
_Value = Annotated[int, Field(ge=-1, le=2**40)] | Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,249}$")]
_Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
TOPICS_MAX: Final = 64
PIECE_CHARACTERS_MAX: Final = 2 << 20  # A piece of a record of requests has no more, packed and as text.


class Toxic(Message):
    """To be removed: its name is enough."""

    name: _ToxicName
    type: str = Field(default="", pattern=r"^[a-z_]{0,40}$")
    stream: Stream = "downstream"
    attributes: dict[_Word, _Value] = Field(default_factory=dict, max_length=16)
    counters: dict[_Word, Annotated[int, Field(ge=0, le=2**62)]] = Field(default_factory=dict, max_length=16)

    @model_validator(mode="after")
    def _has_amounts(self) -> Toxic:
        wrong = [name for name, value in self.attributes.items() if isinstance(value, str) or value < 0]
        if wrong and not self.type.startswith("kafka_"):
            raise ValueError(f"{wrong[0]} of a toxic {self.type} is an amount")
        return self


class Probe(Message):
    """`size_bytes` 0: one round trip through the proxy, from its own host."""

    timeout_ms: int = Field(ge=1, le=60_000)
    stream: Stream = "downstream"
    size_bytes: int = Field(default=0, ge=0, le=1 << 30)


class BrokerOffer(Message):
    """What the operator permits with one broker."""

    broker: _Broker
    allow: tuple[_Word, ...] = Field(default=(), max_length=ALLOWED_MAX)
    has_logs: bool = False  # the log of a dead leader can be read


class ProxyOffer(Message):
    """A proxy that runs there, with the links that it carries, and what the operator permits with it."""

    name: Name
    links: tuple[_LinkName, ...] = Field(min_length=1, max_length=LINKS_MAX)
    allow: tuple[_Word, ...] = Field(min_length=1, max_length=ALLOWED_MAX)
    listen: str = Field(max_length=300)  # to be shown
    upstream: str = Field(max_length=300)
    is_tls: bool = False
    has_requests: bool = False  # it knows Kafka's requests, and can record which batches a broker took


class FaultHello(Message):
    """A fault host presents itself, every other second."""

    KIND = "fault_hello"
    name: Name
    version: str = Field(max_length=64)
    brokers: tuple[BrokerOffer, ...] = Field(default=(), max_length=BROKERS_MAX)
    proxies: tuple[ProxyOffer, ...] = Field(default=(), max_length=PROXIES_MAX)
    proxy_server: str = Field(default="", max_length=100)  # "embedded toxiproxy", "toxiproxy 2.12.0"

    @model_validator(mode="after")
    def _offers_something(self) -> FaultHello:
        if not self.brokers and not self.proxies:
            raise ValueError("a fault host has brokers or proxies")
        return self


class Asked(Message):
    """What both the harness and its hub say: what is to be done, and to whom. A record of requests is of the host."""

    number: int = Field(ge=1, le=2**53)
    action: Action
    broker: _Broker | None = None
    proxy: Name | None = None
    topic: str = Field(default="", pattern=r"^([A-Za-z0-9._-]{1,249})?$")  # `logs` needs it.
    partitions: int = Field(default=0, ge=0, le=PARTITIONS_MAX)
    toxic: Toxic | None = None
    probe: Probe | None = None
    topics: tuple[_Topic, ...] = Field(default=(), max_length=TOPICS_MAX)  # `requests_begin` needs them.
    offset: int = Field(default=0, ge=0, le=2**40)  # `requests_piece` needs it.

    @model_validator(mode="after")
    def _names_one(self) -> Asked:
        of_proxy, of_host = self.action in PROXY_ACTIONS, self.action in REQUEST_ACTIONS
        if (self.proxy is not None) != of_proxy or (self.broker is not None) != (not of_proxy and not of_host):
            what = "a proxy and nothing else" if of_proxy else "neither" if of_host else "a broker and nothing else"
            raise ValueError(f"{self.action} names {what}")
        if bool(self.topics) != (self.action == "requests_begin"):
            raise ValueError("topics belong to requests_begin")
        if (self.toxic is not None) != (self.action in ("toxic_add", "toxic_remove")):
            raise ValueError("a toxic belongs to toxic_add and toxic_remove")
        if (self.probe is not None) != (self.action == "probe"):
            raise ValueError("a probe belongs to the action probe")
        return self

    @property
    def who(self) -> str:
        if self.action in REQUEST_ACTIONS:
            return "the record of requests"
        return f"broker {self.broker}" if self.proxy is None else f"proxy {self.proxy}"


class Ask(Asked):
    """`number` names it: asked twice, it is done once."""

    KIND = "fault_ask"
    run_id: Place
    begin_until_ns: _Nanoseconds  # The clock is that of the fault host. What comes later is not begun.


class ProcessSeen(Message):
    pid: _Pid
    start_ticks: _Ticks
    state: str = Field(default="", max_length=1)  # as in /proc; empty: it is gone


class ProxySeen(Message):
    is_enabled: bool
    toxics: tuple[Toxic, ...] = Field(default=(), max_length=64)


class ProbeSeen(Message):
    outcome: _Word
    elapsed_us: int = Field(ge=0, le=2**40)
    size_bytes: int = Field(default=0, ge=0, le=2**40)


class RequestsSeen(Message):
    """A piece of a record of requests. `data`: base64 of what zlib made of it. `size_bytes` and `sha256`: of the whole
    record, the second only when it has ended. `problem`: why the record is not complete."""

    data: str = Field(default="", max_length=PIECE_CHARACTERS_MAX)
    size_bytes: int = Field(default=0, ge=0, le=2**40)
    sha256: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    problem: str = Field(default="", max_length=PROBLEM_CHARACTERS_MAX)


class Answer(Message):
    KIND = "fault_answer"
    number: int = Field(ge=1, le=2**53)
    run_id: Place
    is_done: bool
    is_refused: bool = False  # it is not on the list of that host
    is_unknown: bool = False  # not done, but it may still take effect
    problem: str = Field(default="", max_length=PROBLEM_CHARACTERS_MAX)
    from_ns: _Nanoseconds = 0  # The clock is the one there.
    to_ns: _Nanoseconds = 0
    running: ProcessSeen | None = None
    proxy: ProxySeen | None = None
    probe: ProbeSeen | None = None
    requests: RequestsSeen | None = None
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


class Wanted(Asked):
    """What the harness tells its hub to ask. The hub knows the host's clock, and adds until when it may be begun."""


class AskClock(Message):
    """The harness asks its hub: how was the clock of that host during this time of our clock? `offset_ns`: with which
    times were converted before, so that all of them are converted alike."""

    number: int = Field(ge=1, le=2**53)
    host: Name
    first_ns: int
    last_ns: int
    offset_ns: int | None = None


class ClockTold(Message):
    """`offset_ns`: its clock minus ours, with which times of that span are converted."""

    event: Literal["clock"] = "clock"
    number: int
    offset_ns: int = 0
    error_us: float = 0.0  # A time that was converted with it may be wrong by so much, at every moment of the span.
    problem: str = ""  # there is no bound


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
