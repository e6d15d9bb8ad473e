"""What master and load hosts say to each other: typed, checked on receipt, bounded. No I/O, no Locust.

Each message is a frozen value of a type of its own, which names it on the link (`KIND`). codec.py carries them over.

A load host takes plans. A plan names a client that the load host knows, addresses of brokers, and settings that can
neither name a file nor load code: `SharePlan` refuses the others. Credentials never travel. What a cluster asks of its
clients is given to `harness worker`, as --client-config, on the load host itself.
Shown by tests/workloads/test_workloads_hosts_wire.py.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from workloads.clients import client_names
from workloads.model import Plan, Replay, Workload
from workloads.reports import LoadReport, LoadState

MESSAGE_BYTES_MAX: Final = 8 * 1024 * 1024
CHUNK_BYTES: Final = 1024 * 1024
FILES_MAX: Final = 20_000  # One cell has at most so many at one load host.
PROPERTIES_MAX: Final = 200
HOSTS_MAX: Final = 64
PROCESSES_MAX: Final = 1024  # One load host has at most so many.
PROBLEM_CHARACTERS_MAX: Final = 2_000

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
# A name of a directory: what cells and runs are called. Never a path.
Place = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._,=+-]{0,199}$")]
SEGMENT_NAME: Final = re.compile(r"(send|recv)-[a-z0-9]{1,40}-\d{6}\.seg|producer-\d{1,6}-\d{1,9}\.inflight")
# By which a load host knows that its store is the one of its master; empty: run logs come over the link.
StoreToken = Annotated[str, Field(pattern=r"^([0-9a-f]{32})?$")]
_Nanoseconds = Annotated[int, Field(ge=-(2**62), le=2**62)]

_PROPERTY: Final = re.compile(r"[a-z][a-z0-9._-]{0,99}")
_VALUE: Final = re.compile(r"[A-Za-z0-9_.,:;+ -]{0,200}")
# Parts of names of settings that read a file, load code, start a program, let somebody in or name other brokers
# (bootstrap.servers, metadata.broker.list), in any of the clients.
_REFUSED_PARTS: Final = frozenset({
    "class", "classes", "location", "path", "paths", "file", "files", "plugin", "library", "module", "jaas", "command",
    "cmd", "exec", "interceptor", "interceptors", "providers", "provider", "callback", "handler", "reporters",
    "serializer", "deserializer", "keystore", "truststore", "keytab", "password", "secret", "username", "token", "sasl",
    "ssl", "security", "kinit", "url", "proxy", "engine", "debug", "bootstrap", "list",
})  # fmt: skip


class Message(BaseModel):
    """Parts of messages are of this type too, and have no `KIND`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    KIND: ClassVar[str] = ""  # its name on the link
    IS_JSON: ClassVar[bool] = False  # holds values that only their JSON carries, such as those of a workload


class Hello(Message):
    """A load host presents itself, every other second."""

    KIND = "host_hello"
    name: Name
    version: str = Field(max_length=64)
    python: str = Field(max_length=64)
    cores: int = Field(ge=1, le=65_536)
    clients: tuple[str, ...] = Field(max_length=32)
    cell: str = Field(default="", max_length=200)  # that it works on


class ClockQuestion(Message):
    KIND = "host_clock"
    number: int = Field(ge=0, le=2**53)


class ClockAnswer(ClockQuestion):
    received_ns: _Nanoseconds
    sent_ns: _Nanoseconds


class ShareOfHost(Message):
    """Which users of the cell run here, by their numbers."""

    producers: tuple[Annotated[int, Field(ge=0, le=1023)], ...] = Field(default=(), max_length=1024)
    consumers: tuple[Annotated[int, Field(ge=0, le=65_535)], ...] = Field(default=(), max_length=1024)


class SharePlan(Message):
    """What one load host is to do in one cell. Compare `workloads.model.Plan`: no path, no credentials, no runtime."""

    KIND = "host_plan"
    IS_JSON = True
    run_id: Place
    cell_id: Place
    client: str
    bootstrap_servers: str = Field(pattern=r"^[A-Za-z0-9._,:\[\]-]{1,4000}$")
    topic: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")
    partitions: int = Field(ge=1, le=10_000)
    properties: dict[str, str] = Field(default_factory=dict, max_length=PROPERTIES_MAX)
    workload: Workload
    seed: int
    log_append_time: bool = False
    share: ShareOfHost
    t0_monotonic_ns: _Nanoseconds  # The run's origin, on the load host's clock.
    harness_t0_ns: _Nanoseconds  # the same moment on the harness's clock, which the records' headers carry
    store: StoreToken = ""

    @classmethod
    def of(
        cls, plan: Plan, *, run_id: str, share: ShareOfHost, t0_monotonic_ns: int, harness_t0_ns: int, store: str = ""
    ) -> SharePlan:
        """One host's share of a plan of the harness. ValidationError for what no load host takes."""
        return cls(
            run_id=run_id,
            cell_id=plan.cell_id,
            client=plan.client,
            bootstrap_servers=plan.bootstrap_servers,
            topic=plan.topic,
            partitions=plan.partitions,
            properties=plan.properties,
            # Users of a locustfile run beside the harness. No load host runs code that a plan names.
            workload=plan.workload.model_copy(update={"locust": None}),
            seed=plan.seed,
            log_append_time=plan.log_append_time,
            share=share,
            t0_monotonic_ns=t0_monotonic_ns,
            harness_t0_ns=harness_t0_ns,
            store=store,
        )

    @field_validator("client")
    @classmethod
    def _known_client(cls, value: str) -> str:
        if value not in client_names():
            raise ValueError(f"no such client, there are {', '.join(client_names())}")
        return value

    @field_validator("properties")
    @classmethod
    def _harmless(cls, value: dict[str, str]) -> dict[str, str]:
        check_properties(value)
        return value

    @model_validator(mode="after")
    def _no_files(self) -> SharePlan:
        workload = self.workload
        if workload.corpus is not None:
            raise ValueError("corpus names a file: load hosts take no path")
        if workload.locust is not None:
            raise ValueError("locust names a file with code: load hosts take none")
        if isinstance(workload.schedule, Replay) and workload.schedule.file is not None:
            raise ValueError("schedule.file names a file: load hosts take no path; give times_ms")
        for reader in workload.reader_groups:
            check_properties({**reader.properties, **reader.producer_properties})
            if reader.deduplicate == "redis":
                raise ValueError(f"reader {reader.name}: deduplicate: redis is for one load host")
        if not len(self.share.producers) + len(self.share.consumers) >= 1:
            raise ValueError("the share is empty")
        return self


class BeginAt(Message):
    """Phases on the load host's clock (workloads.context.Phases)."""

    KIND = "host_begin"
    start_ns: _Nanoseconds
    measure_ns: _Nanoseconds
    end_ns: _Nanoseconds
    drain_end_ns: _Nanoseconds


class StopSending(Message):
    KIND = "host_stop_sending"
    drain_deadline_ns: _Nanoseconds


class StopReceiving(Message):
    KIND = "host_stop_receiving"


class AskReport(Message):
    KIND = "host_ask_report"


class End(Message):
    """The share of the cell is over, whatever it still does."""

    KIND = "host_end"


class OfCell(Message):
    run_id: Place
    cell_id: Place

    @property
    def cell(self) -> OfCell:
        return OfCell(run_id=self.run_id, cell_id=self.cell_id)


class AskFiles(OfCell):
    KIND = "host_files"


class Forget(OfCell):
    KIND = "host_forget"


class ListedSegment(Message):
    name: str = Field(pattern=f"^({SEGMENT_NAME.pattern})$")
    bytes: int = Field(ge=0, le=2**33)
    is_closed: bool  # nobody writes it any more
    is_stored: bool = False  # it is in the store


class FilesOfCell(OfCell):
    KIND = "host_files"
    files: tuple[ListedSegment, ...] = Field(max_length=FILES_MAX)
    problem: str = Field(default="", max_length=PROBLEM_CHARACTERS_MAX)
    is_storing: bool = False  # what is not in the store will be


class AskChunk(OfCell):
    KIND = "host_chunk"
    name: str = Field(pattern=f"^({SEGMENT_NAME.pattern})$")
    offset: int = Field(ge=0, le=2**33)


class Chunk(AskChunk):
    data: bytes = Field(max_length=CHUNK_BYTES)
    is_last: bool
    sha256: str = Field(default="", max_length=64)  # It is of the whole file, and comes with its last piece.


class NoChunk(AskChunk):
    """The piece cannot be given."""

    KIND = "host_no_chunk"
    reason: str = Field(max_length=PROBLEM_CHARACTERS_MAX)
    is_permanent: bool  # asking again is of no use


class StateTold(Message):
    KIND = "host_state"
    cell_id: str = Field(max_length=200)
    done: tuple[str, ...] = Field(max_length=32)  # What it has done of what it was told.
    state: LoadState


class ReportTold(Message):
    KIND = "host_report"
    cell_id: str = Field(max_length=200)
    reports: tuple[LoadReport, ...] = Field(max_length=PROCESSES_MAX)


class Problem(Message):
    KIND = "host_problem"
    cell_id: str = Field(default="", max_length=200)
    message: str = Field(max_length=PROBLEM_CHARACTERS_MAX)


class Certify(Message):
    KIND = "host_certify"
    IS_JSON = True
    number: int = Field(ge=0, le=2**31)
    plan: SharePlan


class Ceiling(Message):
    KIND = "host_ceiling"
    number: int = Field(ge=0, le=2**31)
    records_per_s: float = Field(ge=0, le=1e12)
    cpu_share_by_process: tuple[float, ...] = Field(default=(), max_length=1024)
    why: str = Field(default="", max_length=PROBLEM_CHARACTERS_MAX)


class Welcome(Message):
    KIND = "host_welcome"
    run_id: Place
    version: str = Field(max_length=64)


class Refused(Message):
    KIND = "host_refused"
    reason: str = Field(max_length=PROBLEM_CHARACTERS_MAX)


def check_properties(properties: dict[str, str]) -> None:
    """ValueError names the first setting that a load host does not take from its master."""
    for name, value in properties.items():
        parts = set(re.split(r"[._-]", name))
        if not _PROPERTY.fullmatch(name) or parts & _REFUSED_PARTS:
            raise ValueError(
                f"a load host takes no setting {name[:60]!r} from its master, because it can name a file, load code, "
                "let somebody in or lead elsewhere: give it to `harness worker` there, as --client-config FILE"
            )
        if not _VALUE.fullmatch(value):
            raise ValueError(f"a load host takes no such value of {name!r} from its master: {value[:60]!r}")


def words_of(error: ValidationError) -> str:
    """A validation error in one line."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}"[:PROBLEM_CHARACTERS_MAX]


def version_problem(name: str, theirs: str, ours: str, *, kind: str = "load host") -> str:
    """Why a load host of another version is refused; empty if it is the same."""
    if theirs == ours:
        return ""
    return (
        f"{kind} {name} has version {theirs[:64]} of the harness, its master has {ours}: "
        "both need the same; install one of them on the other"
    )


def processes_here(workload: Workload, share: ShareOfHost) -> int:
    """Each load host runs the workload's `processes`, but none without a user."""
    return max(1, min(workload.processes, len(share.producers) + len(share.consumers)))
