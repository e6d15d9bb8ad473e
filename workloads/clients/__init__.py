"""Client adapters by name: first our own table, then entry points of other packages. Imported only when a plan asks for
one.

An installed package adds a client by an entry point of the group `kafka_harness.clients` (docs/guide/clients.md).
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from runlog.files.nearest import nearest_name
from workloads.clients.member_protocol import (
    Copier,
    CopierSetup,
    GroupMember,
    MemberLibrary,
    MemberListener,
    MemberSetup,
    ShareLibrary,
    ShareListener,
    ShareMember,
    ShareSetup,
)
from workloads.clients.process.build import version_of
from workloads.clients.process.library import SHIPPED, is_process, process_library, shipped_with
from workloads.clients.process.messages import Ability
from workloads.clients.protocol import (
    ChecksConsumerProperties,
    ChecksProperties,
    ClientError,
    ClientLibrary,
    ConsumerClient,
    DeclaresTransactions,
    OutcomeSink,
    ProducerClient,
    PropertyError,
    RunsTransactions,
    StandsIn,
    TransactionalClient,
    is_true,
)
from workloads.clients.protocol import ClientSetup as ClientSetup

ENTRY_POINT_GROUP = "kafka_harness.clients"
_IN_FLIGHT = "max.in.flight.requests.per.connection"
_IN_FLIGHT_MAX = 5  # of an idempotent producer: a broker remembers so many batches of it
BUILTIN = {
    "reference": "workloads.clients.reference",
    "confluent": "workloads.clients.confluent",
    "aiokafka": "workloads.clients.aiokafka",
    "kafka_python": "workloads.clients.kafka_python",
    "java": "workloads.clients.java",
}

# Producer settings that the load refuses for each of our clients, whether its library has the property or not.
_NOT_OF_THE_LOAD = {
    "transactional.id": "the harness names it; `commit_interval_ms` of the workload sends its records in transactions, "
    "and copiers are readers with own_processes: true and copies: true (scenario copy-loop)",
}


def client_names() -> tuple[str, ...]:
    """Ours, then those of installed packages; of equal names ours counts. A program of yours is in no list."""
    ours = (*BUILTIN, *SHIPPED)
    return (*ours, *sorted({point.name for point in _entry_points(tuple(sys.path))} - set(ours)))


def is_client(name: str) -> bool:
    """One of `client_names`, one of them in a version (`confluent==2.4.0`), or a name that says how a program is
    started: `./my-client`, `process:COMMAND`. Whether there is such a version is known when it is installed."""
    return name in client_names() or is_process(name)


def describe(name: str) -> str:
    """Says where a client comes from."""
    point = _entry_point(name)
    if name in SHIPPED:
        return f"a program that speaks the client protocol, version {version_of(name)} of its library"
    return "built in" if name in BUILTIN or point is None else f"entry point {point.value}"


def library(name: str) -> ClientLibrary:
    """ClientError when there is no such client or its package is not installed."""
    if is_process(name):
        return process_library(name)
    try:
        if name in BUILTIN:
            return cast(ClientLibrary, importlib.import_module(BUILTIN[name]))
        point = _entry_point(name)
        if point is not None:
            return cast(ClientLibrary, point.load())
    except ImportError as error:
        raise ClientError(f"client {name}: {error}; install the package that it needs") from error
    near = nearest_name(name, client_names())
    hint = f"; did you mean {near}?" if near else ""
    raise ClientError(f"no client {name!r}: there are {', '.join(client_names())}, and ./PROGRAM{hint}")


def make_producer(client: str, setup: ClientSetup, sink: OutcomeSink) -> ProducerClient:
    """PropertyError if the client cannot set a property; nothing is connected yet."""
    _refuse_what_the_load_is_not(client, setup.properties)
    return library(client).make_producer(setup, sink)


def make_transactional_producer(client: str, setup: ClientSetup, sink: OutcomeSink) -> TransactionalClient:
    """As `make_producer`. ClientError if the client sends no load in transactions."""
    check_transactions(client, setup.properties)
    found = library(client)
    assert isinstance(found, RunsTransactions)
    return found.make_transactional_producer(setup, sink)


def make_consumer(client: str, setup: ClientSetup) -> ConsumerClient:
    return library(client).make_consumer(setup)


def make_member(client: str, setup: MemberSetup, listener: MemberListener) -> GroupMember:
    """As `make_producer`. ClientError when the library's adapter cannot be a member in a process of its own."""
    return _member_library(client, "make_member").make_member(setup, listener)


def make_copier(client: str, setup: CopierSetup, listener: MemberListener) -> Copier:
    return _member_library(client, "make_copier").make_copier(setup, listener)


def make_share_member(client: str, setup: ShareSetup, listener: ShareListener) -> ShareMember:
    """As `make_member`, for a member of a share group."""
    found = library(client)
    if not hasattr(found, "make_share_member"):
        raise ClientError(f"client {client} cannot be a member of a share group: it has no make_share_member")
    return cast(ShareLibrary, found).make_share_member(setup, listener)


def _member_library(client: str, ability: str) -> MemberLibrary:
    found = library(client)
    if not hasattr(found, ability):
        what = "a group member in a process of its own" if ability == "make_member" else "a transactional copier"
        raise ClientError(f"client {client} cannot be {what}: it has no {ability}")
    return cast(MemberLibrary, found)


def check_properties(client: str, properties: Mapping[str, str]) -> None:
    """PropertyError if the client says that it cannot set one of them; ClientError as `library`. No error is no
    promise: a client need not offer this check, and some only notice when they are made."""
    found = library(client)
    _refuse_what_the_load_is_not(client, properties)
    if isinstance(found, ChecksProperties):
        found.check_properties(properties)


def check_transactions(client: str, properties: Mapping[str, str], *, has_readers: bool = False) -> None:
    """ClientError if the client sends no load in transactions, PropertyError if not with these properties, or if its
    readers cannot be told to read committed records only."""
    _refuse_what_the_load_is_not(client, properties)
    if problem := transactions_problem(client):
        raise ClientError(
            f"client {client} sends no load in transactions: {problem}. Leave commit_interval_ms out of the workload, "
            f"or take one of {', '.join(clients_with_transactions())}"
        )
    in_flight = properties.get(_IN_FLIGHT, "1").strip()
    for name, is_wrong in (
        ("acks", properties.get("acks", "all").strip().lower() not in ("all", "-1")),
        ("enable.idempotence", not is_true(properties.get("enable.idempotence", "true"))),
        ("retries", properties.get("retries", "1").strip() == "0"),
        (_IN_FLIGHT, in_flight.isdecimal() and int(in_flight) > _IN_FLIGHT_MAX),
    ):
        if is_wrong:
            needs = f"acks=all, retries, and at most {_IN_FLIGHT_MAX} requests in flight (workload.commit_interval_ms)"
            reason = f"a transactional producer is idempotent, which needs {needs}"
            raise PropertyError(client, name, f"{properties[name]!r} does not go with transactions: {reason}")
    if has_readers:
        check_consumer_properties(client, {"isolation.level": "read_committed"}, is_member=False)


def transactions_problem(client: str) -> str:
    """Why this client sends no load in transactions. Empty if it can. ClientError as `library`. Whatever says who has
    transactions asks here, or `clients_with_transactions`."""
    found = library(client)
    if not isinstance(found, RunsTransactions):
        return "it has no make_transactional_producer"
    return found.transactions_problem() if isinstance(found, DeclaresTransactions) else ""


def clients_with_transactions() -> tuple[str, ...]:
    """Of ours, those that can send a load in transactions, without those whose package is not installed. No program is
    started for it."""
    return (*filter(_runs_transactions, BUILTIN), *shipped_with(Ability.TRANSACTIONS))


def _runs_transactions(builtin: str) -> bool:
    try:
        return isinstance(library(builtin), RunsTransactions)
    except ClientError:
        return False


def check_consumer_properties(client: str, properties: Mapping[str, str], *, is_member: bool) -> None:
    """The same for a reader: `is_member` of a consumer group, or with partitions of its own."""
    found = library(client)
    if isinstance(found, ChecksConsumerProperties):
        found.check_consumer_properties(properties, is_member=is_member)


def _refuse_what_the_load_is_not(client: str, properties: Mapping[str, str]) -> None:
    """PropertyError. A client of somebody else may run transactions behind its `send`."""
    for name, reason in _NOT_OF_THE_LOAD.items():
        if (client in BUILTIN or is_process(client)) and name in properties:
            raise PropertyError(client, name, reason)


def nearest_properties(
    client: str, properties: Mapping[str, str], *, as_they_are: Collection[str]
) -> tuple[Mapping[str, str], Sequence[str]]:
    """The settings of this client that come nearest to a scenario's, and each change in words; ClientError as
    `library`. Most clients change nothing."""
    found = library(client)
    if isinstance(found, StandsIn):
        return found.nearest_properties(properties, as_they_are=as_they_are)
    return properties, ()


@functools.cache
def _entry_points(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Of the packages that are installed on this path: each look reads the lists of all of them, about 20 ms."""
    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def _entry_point(name: str) -> EntryPoint | None:
    return next((point for point in _entry_points(tuple(sys.path)) if point.name == name), None)
