"""The cluster on which trials take place, a topic and a client id for each, and what proxies do to its requests.

Several trials run side by side on one cluster that stays up. They share nothing: a disturbance selects by client id, so
it meets one client only, and each trial has a topic, a group and a transactional id of its own. What the cluster does
in a trial, it does to that one only (cluster_changes.py). Trials in which a broker's process dies run one at a time, on
a cluster for such trials (benches.py). Shown by
tests/harness/test_harness_explore_bench.py.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from broker.door.clients import Admin as GroupsAdmin
from broker.door.clients import KafkaError
from broker.door.protocol import ProtocolError
from chaos.faults.disabled_links import DisabledLinks
from chaos.faults.toxics import LinkToxics
from chaos.lease import Lease
from chaos.toxiproxy.calls import ToxiproxyError
from chaos.toxiproxy.toxic import AttributeValue
from harness.clusters.base import ClusterKey, Engine
from harness.clusters.factory import build_cluster
from harness.clusters.process_cluster import ProcessCluster
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.log_reader import TopicLogReader
from harness.clusters.requests.own_topics import OwnTopics
from harness.errors import EnvironmentFault, HarnessError
from harness.explore.execution.cluster_changes import (
    APIS,
    BROKERS,
    GROUPS,
    TRANSACTIONS,
    WHOLE_WITHIN_S,
    Changes,
    Coordinators,
)
from harness.explore.execution.log_records import deleted_of, logged_of
from harness.explore.execution.other_writers import KEYS, Others, Writers
from harness.explore.execution.subject import Site, Subject
from harness.explore.execution.toxics import STREAM, beside_name, second_name, toxic_of
from harness.explore.execution.traffic_log import Mark, TrafficLog
from harness.explore.execution.warm_clients import WarmClients
from harness.explore.generators.broker_deaths import RACKS
from harness.explore.generators.extremes import COMPACTED
from harness.explore.trial.history import Changed, Happening, History, Logged, Outcome
from harness.explore.trial.model import Disturbance, Do, How, Program, Role, Trial
from harness.explore.trial.requests_sent import Use, uses_of
from harness.explore.trial.topics import Topics
from harness.fixtures.committed import RecordStatus, records_of
from runlog.records.exchange import KafkaExchange
from workloads.clients.fates import failed_codes

HEALTH_TIMEOUT_S: Final = 60.0
# Each proxy writes at most this to one file. Trials that run at once need far less.
EXCHANGES_BYTES_MAX: Final = 1 << 30
MARKERS_TIMEOUT_S: Final = 15.0
_MARKERS_POLL_S: Final = 0.1
COMMITTED_WITHIN_S: Final = 30.0
COMPACTED_WITHIN_S: Final = 10.0
SEGMENT_S: Final = int(COMPACTED["segment.ms"]) / 1_000
_WATCH_S: Final = 0.25
# Groups begin at once, and a session may be short. Everything else is as a user has it.
SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "100",
    # A consumer with client.rack reads from the replica in its rack.
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "group.min.session.timeout.ms": "1000",
    # In the protocol of KIP-848 the broker chooses these, and not the client.
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a trial has brought. `uses`: by API how many requests the client sent, at the broker that got most of them,
    because each proxy counts for itself."""

    history: History
    uses: Mapping[str, Use]
    duration_s: float


class RunsProgram(Protocol):
    """One run of one program. `happened` grows meanwhile. `problem`: why it proves nothing; `refused`: the property
    that the client cannot set so; `effective`: settings in force that were not asked for. `give_up`, from another
    thread: what is running ends, and `run` returns soon."""

    @property
    def happened(self) -> Sequence[Happening]: ...

    @property
    def problem(self) -> str: ...

    @property
    def refused(self) -> str: ...

    @property
    def effective(self) -> Mapping[str, str]: ...

    def run(self) -> None: ...

    def give_up(self) -> None: ...


MakesRun = Callable[[Sequence[str], Mapping[str, str], Program, Site], RunsProgram]


class _SharedToxics:
    """Toxics of one trial. The proxies' client is one for all trials, and not made for several threads."""

    def __init__(self, toxics: LinkToxics, lock: threading.Lock) -> None:
        self._toxics, self._lock = toxics, lock

    def add(self, links: Sequence[str], attributes: Mapping[str, AttributeValue]) -> None:
        with self._lock:
            self._toxics.add(links, (STREAM,), attributes)

    def remove(self) -> None:
        with self._lock:
            self._toxics.remove()

    def counted(self, name: str) -> list[int]:
        """On each link."""
        with self._lock:
            return [state.counters.get(name, 0) for state in self._toxics.states().values()]


@dataclass(slots=True, kw_only=True)
class _Watch:
    """When one disturbance met its first request, and when it was healed."""

    disturbance: Disturbance
    toxics: _SharedToxics
    first_us: int | None = None
    healed_us: int | None = None
    met: int = 0
    problem: str = ""
    stop: threading.Event = field(default_factory=threading.Event)
    _turn: threading.RLock = field(default_factory=threading.RLock)  # what was removed counts as 0 for who looks later

    def run(self) -> None:
        """Heals `heal_after_ms` after the first request that was met, if it would act for ever."""
        try:
            while not self.stop.wait(_WATCH_S):
                if self._lasts_us() >= self.disturbance.heal_after_ms * 1_000:
                    self.heal()
                    return
        except Exception as error:  # whatever it is: a trial whose disturbance nobody heals proves nothing
            self.problem = f"the disturbance: {type(error).__name__}: {error}"

    def _lasts_us(self) -> int:
        """Since the first request that was met; -1 before it, and when it is healed."""
        with self._turn:
            if self.healed_us is not None:
                return -1
            self.met = max(self.met, self.count())
            now_us = time.monotonic_ns() // 1_000
            if self.met and self.first_us is None:
                self.first_us = now_us
            return -1 if self.first_us is None else now_us - self.first_us

    def heal(self) -> None:
        with self._turn:
            if self.healed_us is None:
                self._lasts_us()
                self.toxics.remove()
                self.healed_us = time.monotonic_ns() // 1_000

    def count(self) -> int:
        return sum(self.toxics.counted("acted"))

    @property
    def has_met(self) -> bool:
        """Also after it was healed, when nothing is there any more that counts."""
        return self.met > 0 or self.count() > 0

    @property
    def is_over(self) -> bool:
        """Whether progress is due: it has met nothing so far, is healed, has done all that it does, or nobody watches
        it any more. A silence lasts until it is healed."""
        if not self.met or self.problem or self.healed_us is not None:
            return True
        is_lasting = self.disturbance.how in (How.SILENCE_BEFORE, How.SILENCE_AFTER)
        return not is_lasting and 0 < self.disturbance.count <= self.met


class _Watches:
    """Those of one trial, as `Trial.disturbances` has them."""

    def __init__(self) -> None:
        self.each: list[_Watch] = []

    @property
    def problem(self) -> str:
        return next((watch.problem for watch in self.each if watch.problem), "")

    @property
    def has_met(self) -> bool:
        return any(watch.has_met for watch in self.each)

    @property
    def is_over(self) -> bool:
        return all(watch.is_over for watch in self.each)

    @property
    def healed_us(self) -> int | None:
        """None if one of them is not healed yet, or if there is none."""
        healed_us = [watch.healed_us for watch in self.each]
        return max((us for us in healed_us if us is not None), default=None) if None not in healed_us else None

    def met(self, place: int) -> int:
        return self.each[place].met if place < len(self.each) else 0

    def first_us(self, place: int) -> int | None:
        return self.each[place].first_us if place < len(self.each) else None

    def heal(self) -> None:
        """The last one first, so that a second one meets nothing any more while the first one goes."""
        for watch in reversed(self.each):
            watch.stop.set()
            watch.heal()

    def give_up(self) -> None:
        """Whatever happened: nothing of them stays, as far as that can be done."""
        for watch in self.each:
            watch.stop.set()
            with contextlib.suppress(ToxiproxyError, OSError):
                watch.toxics.remove()


class Bench:
    """A running cluster. `run` may be called from several threads."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        engine: Engine,
        directory: Path,
        lease: Lease,
        brokers: int = BROKERS,
        frame_bytes_max: int = 0,
        releases: tuple[str, ...] = (),
        settings: Mapping[str, str] = MappingProxyType({}),
        run_by: MakesRun = Subject,
        warm: WarmClients | None = None,
    ) -> None:
        """`settings`: of the brokers, beside SETTINGS. `frame_bytes_max`: frames of up to so many bytes are in a
        history's exchanges; 0: none. `run_by`: what carries out a program, here one of moves over the client
        protocol. `warm`: processes that serve several trials; None: each trial starts its own."""
        self._command, self._environment = command, environment
        self._frame_bytes_max = frame_bytes_max
        self._run_by, self._warm = run_by, warm
        self._lease = lease
        self._mark = secrets.token_hex(3)
        key = ClusterKey(
            engine=engine,
            releases=releases,
            proxied=True,
            brokers=brokers,
            racks=RACKS,
            settings=tuple(sorted({**SETTINGS, **settings}.items())),
            journal_appends=False,
        )
        self._cluster: ProcessCluster = build_cluster(key, directory, proxy_choice="embedded", lease=lease, seed=0)
        self._topics: OwnTopics | None = None
        self._traffic = TrafficLog(self._cluster.link_proxies().exchange_log_path, self._reopen_log)
        self._writers: Writers | None = None
        self._coordinators = Coordinators()
        self._running: set[RunsProgram] = set()
        self._are_given_up = threading.Event()
        self._lock, self._proxies_lock = threading.Lock(), threading.Lock()

    def __enter__(self) -> Bench:
        try:
            self._cluster.start()
            self._topics = OwnTopics(Admin(self._cluster.direct_addresses))
            for link in self._links():
                server, proxy = self._cluster.link_proxies().kafka(link)
                server.watch_exchanges(proxy, bytes_max=EXCHANGES_BYTES_MAX, frame_bytes_max=self._frame_bytes_max)
            # Its coordinator is nobody else's, so no trial moves it.
            transactional_id = self._coordinators.take(f"explore-{self._mark}-others", TRANSACTIONS)
            self._writers = Writers(self._cluster.direct_bootstrap_servers, transactional_id)
        except BaseException:
            self._cluster.stop()
            raise
        return self

    def __exit__(self, *details: object) -> None:
        try:
            if self._writers is not None:
                self._writers.close()
        finally:
            self._cluster.stop()

    @property
    def version(self) -> str:
        return self._cluster.version

    def run(self, trial: Trial, number: int, *, may_be_warm: bool = False) -> Evidence:
        """One trial from the beginning to the log that it left. What we could not do is the history's `problem`.
        `may_be_warm`: its client may have served trials before, so it confirms nothing."""
        begun_s = time.monotonic()
        name = f"explore-{self._mark}-{number}"
        program = trial.program
        group = ""
        transactional_ids: list[str] = []
        groups: GroupsAdmin | None = None
        copies = f"{name}-copies" if program.role is Role.COPIER else ""
        topics = Topics.of_trial(name, program.topics, program.partitions)
        all_topics = [*topics.names, copies] if copies else list(topics.names)
        copied: tuple[Logged, ...] = ()
        committed: dict[int, int] = {}
        watches = _Watches()
        mark: Mark | None = None
        changes: Changes | None = None
        changed: list[Changed] = []
        subject: RunsProgram | None = None
        problem = ""
        log: tuple[Logged, ...] = ()
        ends: dict[int, int] = {}
        exchanges: tuple[KafkaExchange, ...] = ()
        try:
            mark = self._traffic.begin()
            if program.has_own_brokers:
                self._cluster.ensure_all_running()
            for each in all_topics:
                self._create(each, program)
            ends = dict.fromkeys(range(topics.count), 0)
            if copies:
                groups = GroupsAdmin({"bootstrap.servers": self._cluster.direct_bootstrap_servers})
            others = self._others(topics, program, ends)
            others.write(program.prefilled)
            group = self._coordinators.take(f"{name}-group", GROUPS, fits=self._beside(topics, program, GROUPS))
            beside = self._beside(topics, program, TRANSACTIONS)
            for member in range(program.members if copies else 1):
                wish = f"{name}-id-{member}" if member else f"{name}-id"
                transactional_ids.append(self._coordinators.take(wish, TRANSACTIONS, fits=beside))
            self._disturb(name, trial, watches)
            coordinators = _coordinators(program, group, transactional_ids)
            changes = self._changes(name, topics, copies, coordinators, changed, ends)
            site = self._site(name, topics, group, transactional_ids, program, ends, watches, changes, others)
            if may_be_warm:
                site = replace(site, warm=self._warm)
            if groups is not None:
                ask = groups
                site = replace(site, copies=copies, committed=lambda: committed_by(ask, group, topics))
            subject = self._run_by(self._command, self._environment, program, site)
            self._run(subject)
            changes.end()
            problem = changes.problem
            problem = problem or watches.problem
            watches.heal()
            exchanges = self._exchanges(name, mark)
            if program.has_own_brokers:
                self._await_whole(all_topics)
            if program.is_transactional or program.has_transactions_of_others:
                self._await_markers(topics, list(ends))
            log = self._log(topics, list(ends), changes.starts)
            there = {(each.partition, each.offset) for each in log}
            compacted = (each for each in others.written if (each.partition, each.offset) not in there)
            log = (*changes.deleted, *compacted, *log)
            if groups is not None:
                # First the offsets: what is committed meanwhile is then in the copies, and not the other way round.
                committed = committed_by(groups, group, topics)
                of_copies = Topics((copies,), program.partitions)
                self._await_markers(of_copies, range(program.partitions))
                copied = self._log(of_copies, range(program.partitions), {})
        except (HarnessError, ToxiproxyError, ProtocolError, KafkaError, OSError, TimeoutError) as error:
            problem = f"{type(error).__name__}: {error}"
        finally:
            if changes is not None:
                changes.end()
            self._clean_up(all_topics, watches)
            if groups is not None:
                groups.close()
            if mark is not None:
                self._traffic.end(mark)
            self._coordinators.give_back(group)
            for each in transactional_ids:
                self._coordinators.give_back(each)
        happened = () if subject is None else _in_order(subject.happened, changed)
        return Evidence(
            history=History(
                happened=_outcomes_known(happened),
                log=log,
                copies=copied,
                committed=committed,
                ends=ends,
                disturbed=watches.met(0),
                disturbed_then=0 if trial.then is None else watches.met(1),
                disturbed_besides=tuple(watches.met(place) for place in range(1, 1 + len(trial.besides))),
                recreated_us=None if changes is None else changes.recreated_us,
                first_disturbed_us=watches.first_us(0),
                then_disturbed_us=None if trial.then is None else watches.first_us(1),
                healed_us=watches.healed_us,
                is_auto_commit=program.properties.get("enable.auto.commit") == "true",
                is_read_uncommitted=program.is_read_uncommitted,
                exchanges=exchanges,
                problem=problem or ("" if subject is None else subject.problem),
                effective={} if subject is None else subject.effective,
                refused="" if subject is None else subject.refused,
            ),
            uses=uses_of(exchanges),
            duration_s=time.monotonic() - begun_s,
        )

    def _run(self, subject: RunsProgram) -> None:
        self._running.add(subject)
        try:
            if not self._are_given_up.is_set():
                subject.run()
        finally:
            self._running.discard(subject)
        if self._are_given_up.is_set():
            raise EnvironmentFault("given up")

    def give_up(self) -> None:
        """From another thread, when nothing is to be begun any more: clients of trials that are under way end at once,
        and these trials prove nothing."""
        self._are_given_up.set()
        for subject in tuple(self._running):
            subject.give_up()

    # --- before -------------------------------------------------------------------------------------------------------

    def _create(self, name: str, program: Program) -> None:
        assert self._topics is not None
        config = dict(program.topic)
        if program.has_own_brokers:
            config["min.insync.replicas"] = str(program.replicas - 1)
        with self._lock:
            self._topics.create(name, partitions=program.partitions, replication_factor=program.replicas, config=config)
        if not self._cluster.wait_healthy(name, timeout_s=HEALTH_TIMEOUT_S, replication_factor=program.replicas):
            raise EnvironmentFault(f"topic {name} has no leader after {HEALTH_TIMEOUT_S:.0f} s")

    def _others(self, topics: Topics, program: Program, ends: dict[int, int]) -> Others:
        assert self._writers is not None
        return Others(
            self._writers,
            topics,
            ends,
            is_read_uncommitted=program.is_read_uncommitted,
            is_compacted=program.is_compacted,
        )

    def _beside(self, topics: Topics, program: Program, internal: str) -> Callable[[int], bool]:
        """Whether a coordinator in this partition of the internal topic is on the broker that leads the last partition
        of the trial's topics. Where a broker is lost it matters what else it had. Without this a repetition of a trial
        would be another trial in two of three cases."""
        state = self._cluster.state(internal) if program.changes else None
        leader = self._cluster.leader(*topics.place(topics.count - 1)) if program.changes else None
        if state is None or leader is None:
            return lambda _: True
        return lambda partition: state.leader_of(partition) == leader

    def _changes(
        self,
        name: str,
        topics: Topics,
        copies: str,
        coordinators: Sequence[tuple[str, str]],
        changed: list[Changed],
        ends: dict[int, int],
    ) -> Changes:
        assert self._topics is not None

        def copy(number: int, start: int, end: int) -> Sequence[Logged]:
            topic, partition = topics.place(number)
            return deleted_of(self._reader(topic), partition, start, end, number=number)

        return Changes(
            topics,
            cluster=self._cluster,
            own=self._topics,
            coordinators=coordinators,
            output=copies,
            unreachable=lambda do, brokers: self._unreachable(name, do, brokers),
            between=lambda kind, links, attributes: self._between(name, kind, links, attributes),
            refuse=self._refuse,
            copy=copy,
            note=changed.append,
            ends=ends,
        )

    def _compact(self, topics: Topics, ends: Mapping[int, int], others: Others) -> None:
        """What is there goes into closed segments, which is what brokers compact. A log that they do not compact in
        time is one that no reader notices anything of."""
        time.sleep(SEGMENT_S)
        others.write(len(ends))
        deadline_s = time.monotonic() + COMPACTED_WITHIN_S
        for number, end in ends.items():
            topic, partition = topics.place(number)
            reader = self._reader(topic)
            while len(logged_of(reader, partition, 0, number=number, end=end)) > KEYS:
                if time.monotonic() > deadline_s:
                    return
                time.sleep(_MARKERS_POLL_S)

    def _unreachable(self, name: str, do: Do, brokers: Collection[int]) -> Callable[[], None]:
        """Every request of this client to these brokers is closed, or kept until it is healed."""
        kind = "kafka_silence" if do in (Do.FREEZE, Do.FREEZE_ALL) else "kafka_close_connection"
        links = [link for link in self._links() if link in {f"client-{broker}" for broker in brokers}]
        placed: list[_SharedToxics] = []

        def heal() -> None:
            while placed:
                placed[-1].remove()
                placed.pop()

        try:
            for api in APIS:
                attributes: dict[str, AttributeValue] = {"api": api, "count": 0, "when": "before", "client_id": name}
                placed.append(self._toxics(f"{name}-{api}", kind, attributes, links))
        except BaseException:
            heal()
            raise
        return heal

    def _between(self, name: str, kind: str, links: Sequence[str], attributes: Mapping[str, int]) -> Callable[[], None]:
        """A plain toxic on links between brokers. What is late is late once: only answers are. Only one trial runs on
        such a cluster."""
        streams = ("downstream",) if kind == "latency" else ("upstream", "downstream")
        on_links = LinkToxics(
            door=self._cluster.link_proxies().plain, lease=self._lease, name=f"{name}-{kind}", type=kind
        )
        try:
            on_links.add(links, streams, attributes)
        except BaseException:
            with contextlib.suppress(ToxiproxyError):
                on_links.remove()
            raise
        return on_links.remove

    def _refuse(self, broker: int) -> Callable[[], None]:
        """No client can connect to the address of a broker. Without this the proxy would accept, and close at once."""
        off = DisabledLinks(self._cluster.link_proxies(), self._lease)

        def accept() -> None:
            with self._proxies_lock:
                off.enable()

        try:
            with self._proxies_lock:
                off.disable(f"client-{broker}")
        except BaseException:
            with contextlib.suppress(ToxiproxyError):
                accept()
            raise
        return accept

    def _site(
        self,
        name: str,
        topics: Topics,
        group: str,
        transactional_ids: Sequence[str],
        program: Program,
        ends: dict[int, int],
        watches: _Watches,
        changes: Changes,
        others: Others,
    ) -> Site:
        return Site(
            bootstrap_servers=self._cluster.bootstrap_servers,
            topics=topics,
            group=group,
            transactional_id=transactional_ids[0],
            further_ids=transactional_ids[1:],
            client_id=name,
            log_starts=lambda: dict(changes.starts),
            log_ends=lambda: dict(ends),
            write=others.write,
            write_in_transaction=others.write_in_transaction,
            compact=lambda: self._compact(topics, dict(ends), others),
            change=changes.begin,
            is_settled=lambda: changes.is_over,
            is_healed=lambda: changes.is_over and watches.is_over,
            has_met=lambda: bool(program.changes) or watches.has_met,
            failed_codes=failed_codes(retries_possible=True),
        )

    def _links(self) -> list[str]:
        return [link for link in self._cluster.link_proxies().names() if link.startswith("client-")]

    def _toxics(
        self, name: str, kind: str, attributes: Mapping[str, AttributeValue], links: Sequence[str]
    ) -> _SharedToxics:
        on_links = LinkToxics(door=self._cluster.link_proxies().kafka, lease=self._lease, name=name, type=kind)
        toxics = _SharedToxics(on_links, self._proxies_lock)
        try:
            toxics.add(links, attributes)
        except BaseException:
            with contextlib.suppress(ToxiproxyError):
                toxics.remove()
            raise
        return toxics

    def _disturb(self, name: str, trial: Trial, watches: _Watches) -> None:
        """A second one is placed first, so that it misses nothing. It waits for the first one on every link."""
        if trial.disturbance is None:
            return
        if trial.then is not None:
            after = {"client_id": name, "after": f"{name}-{STREAM}"}
            watches.each.append(self._watch(second_name(name), trial.then, after))
        for number, one in enumerate(trial.besides, 1):
            watches.each.append(self._watch(beside_name(name, number), one, {"client_id": name}))
        watches.each.insert(0, self._watch(name, trial.disturbance, {"client_id": name}))
        for watch in watches.each:
            threading.Thread(target=watch.run, name=name, daemon=True).start()

    def _watch(self, name: str, disturbance: Disturbance, which: Mapping[str, AttributeValue]) -> _Watch:
        kind, attributes = toxic_of(disturbance)
        toxics = self._toxics(name, kind, {**attributes, **which}, self._links())
        return _Watch(disturbance=disturbance, toxics=toxics)

    # --- after --------------------------------------------------------------------------------------------------------

    def _await_whole(self, topics: Sequence[str]) -> None:
        """What was acknowledged is read from replicas that agree."""
        self._cluster.ensure_all_running()
        for name in topics:
            if not self._cluster.wait_healthy(name, timeout_s=WHOLE_WITHIN_S, replication_factor=BROKERS):
                raise EnvironmentFault(f"topic {name} is not in sync {WHOLE_WITHIN_S:.0f} s after the program")

    def _log(self, topics: Topics, numbers: Sequence[int], starts: Mapping[int, int]) -> tuple[Logged, ...]:
        readers = {topic: self._reader(topic) for topic in topics.names}
        places = [(number, *topics.place(number)) for number in numbers]
        return tuple(
            record
            for number, topic, partition in places
            for record in logged_of(readers[topic], partition, starts.get(number, 0), number=number)
        )

    def _await_markers(self, topics: Topics, numbers: Sequence[int]) -> None:
        """A coordinator answers EndTxn before it writes the markers, so what was committed may look open for a moment.
        What stays open was left so by the client."""
        readers = {topic: self._reader(topic) for topic in topics.names}
        deadline_s = time.monotonic() + MARKERS_TIMEOUT_S
        for topic, partition in (topics.place(number) for number in numbers):
            reader = readers[topic]
            while time.monotonic() < deadline_s and any(
                record.status is RecordStatus.OPEN
                for record in records_of(partition, reader.batches(partition, reader.end_offset(partition)))
            ):
                time.sleep(_MARKERS_POLL_S)

    def _reader(self, name: str) -> TopicLogReader:
        return TopicLogReader(name, lambda partition: self._cluster.probe_of_leader(name, partition))

    @property
    def dropped_log_bytes(self) -> int:
        """Of the log of exchanges, that no trial needs any more."""
        return self._traffic.dropped_bytes

    def end_warm(self) -> Sequence[str]:
        """No client waits for another trial any more. What went wrong with those that waited, which no history has."""
        return () if self._warm is None else self._warm.end()

    def _reopen_log(self) -> None:
        server, _ = self._cluster.link_proxies().kafka(self._links()[0])
        with self._proxies_lock:
            server.reopen_exchange_log()

    def _exchanges(self, client_id: str, mark: Mark) -> tuple[KafkaExchange, ...]:
        """Of one client, in the order in which its requests came. EnvironmentFault if the log is not complete."""
        with self._proxies_lock:
            for link in self._links():
                server, proxy = self._cluster.link_proxies().kafka(link)
                if problem := server.exchanges_stopped(proxy):
                    raise EnvironmentFault(f"the log of exchanges: {problem}")
            if problem := server.exchange_log_problem():
                raise EnvironmentFault(f"the log of exchanges: {problem}")
        return tuple(sorted(self._traffic.read_of(client_id, mark), key=lambda each: each.mono_ns))

    def _clean_up(self, names: Sequence[str], watches: _Watches) -> None:
        watches.give_up()
        assert self._topics is not None
        for name in names:
            with contextlib.suppress(HarnessError, OSError, TimeoutError), self._lock:
                self._topics.delete(name)


def _coordinators(program: Program, group: str, transactional_ids: Sequence[str]) -> list[tuple[str, str]]:
    """The internal topic and the key of each that the program has. A copier has two kinds, and the transactions' is the
    first."""
    has_group = program.role in (Role.CONSUMER, Role.COPIER) or "group.id" in program.properties
    of_transactions = [(TRANSACTIONS, each) for each in transactional_ids] if program.is_transactional else []
    if program.role is not Role.COPIER:
        return of_transactions or ([(GROUPS, group)] if has_group else [])
    return [*of_transactions, (GROUPS, group)]


def committed_by(admin: GroupsAdmin, group: str, topics: Topics) -> dict[int, int]:
    """The offsets of a group, by partition, as the trial numbers them. One that a transaction may still take back does
    not count. While its coordinator is dead nobody can say it, until another broker has taken its place."""
    deadline_s = time.monotonic() + COMMITTED_WITHIN_S
    while True:
        try:
            return {
                topics.number(each.topic, each.partition): at.offset
                for each, at in admin.groups.offsets(group).items()
                if each.topic in topics.names
            }
        except KafkaError:
            if time.monotonic() > deadline_s:
                raise
        time.sleep(_MARKERS_POLL_S)


def _in_order(happened: Sequence[Happening], changed: Sequence[Changed]) -> tuple[Happening, ...]:
    """What the cluster did among what the client did, by its time. The rest keeps its order."""
    merged: list[Happening] = []
    left = list(changed)
    for one in happened:
        while left and left[0].at_us <= one.at_us:
            merged.append(left.pop(0))
        merged.append(one)
    return (*merged, *left)


def _outcomes_known(happened: Sequence[Happening]) -> tuple[Happening, ...]:
    """Without outcomes of records that were never given to the client: those are the protocol's business."""
    sent = {one.seq for one in happened if hasattr(one, "seq") and not isinstance(one, Outcome)}
    return tuple(one for one in happened if not isinstance(one, Outcome) or one.seq in sent)
