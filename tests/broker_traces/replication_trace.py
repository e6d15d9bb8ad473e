"""Commands of a replication trace, carried out by real replica cores over logs in lists.

The controller is a few variables: the trace says whom it elects and what it answers. Nothing happens by itself: a
follower fetches, a broker hears of an image, and time passes, when the trace says so.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker.replication import (
    Action,
    Appended,
    AwaitReplication,
    BecomeFollower,
    BecomeLeader,
    BrokersChanged,
    CompleteProduce,
    EpochEnd,
    Event,
    FetchedFromLeader,
    FollowerFetched,
    HighWatermarkAdvanced,
    IsrProposalAnswered,
    PartitionReplica,
    ProposeIsr,
    ReplicationConfig,
    Tick,
    Truncated,
    diverging_epoch,
    truncation_offset,
)

LAG_MS = 1000  # replica.lag.time.max.ms
WAIT_MS = 5000  # of an acks=all produce
Record = tuple[int, str]  # leader epoch, value


class ReplicationTrace:
    def __init__(self) -> None:
        self._now_ms = 0
        self._brokers: tuple[int, ...] = ()
        self._min_insync_replicas = 1
        self._leader, self._leader_epoch, self._partition_epoch = -1, 0, 0
        self._isr: tuple[int, ...] = ()
        self._broker_epochs: dict[int, int] = {}  # of each life; also what a fetch carries
        self._fenced: set[int] = set()
        self._replicas: dict[int, PartitionReplica] = {}  # of brokers that are up
        self._logs: dict[int, list[Record]] = {}
        self._checkpoints: dict[int, int] = {}  # the high watermark on disk
        self._proposals: list[tuple[int, ProposeIsr]] = []
        self._produced: list[str] = []  # token -> value
        self._lines: list[str] = []

    def run(self, command: str, words: list[str]) -> list[str]:
        """One command of a trace; returns what is to be written under it."""
        self._lines = []
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        match command, names:
            case "brokers", _:
                self._make(tuple(int(name) for name in names), options)
            case "append", [broker, value]:
                self._append(int(broker), value, acks=options.get("acks", "all"))
            case "fetch", [broker]:
                broker_epoch = int(options.get("broker-epoch", self._broker_epochs[int(broker)]))
                self._fetch(int(broker), broker_epoch=broker_epoch)
            case "pass", [duration]:
                self._now_ms += int(duration.removesuffix("ms"))
                for each in self._replicas:
                    self._handle(each, Tick())
            case "controller", [answer]:
                self._decide(answer)
            case "elect", [broker, *rest]:
                self._elect(int(broker), is_unclean=rest == ["unclean"])
            case "minimum", [replicas]:
                self._min_insync_replicas = int(replicas)
                self._lines.append(f"  the controller commits: min.insync.replicas={replicas}")
            case "tell", _:
                for name in names:
                    self._tell(int(name))
            case "fence", [broker]:
                self._fence(int(broker))
            case "register", [broker]:
                self._broker_epochs[int(broker)] += 10
                self._fenced.discard(int(broker))
                self._lines.append(f"  the controller gives {broker} broker epoch {self._broker_epochs[int(broker)]}")
            case "crash", [broker]:
                self._checkpoints[int(broker)] = self._replicas.pop(int(broker)).high_watermark
            case "restart", [broker]:
                self._start(int(broker), int(options.get("high-watermark", self._checkpoints[int(broker)])))
            case "state", []:
                self._lines = [self._state(broker) for broker in self._brokers]
            case _:
                raise ValueError(f"no such command: {command} {' '.join(words)}")
        return self._lines

    # -- brokers -----------------------------------------------------------------------------------------------------

    def _make(self, brokers: tuple[int, ...], options: dict[str, str]) -> None:
        self._brokers, self._leader = brokers, brokers[0]
        self._isr = tuple(int(each) for each in options["isr"].split(",")) if "isr" in options else brokers
        self._min_insync_replicas = int(options.get("min.insync.replicas", "1"))
        self._broker_epochs = {broker: broker for broker in brokers}
        self._logs = {broker: [] for broker in brokers}
        for broker in brokers:
            self._start(broker, 0)
            self._tell(broker)

    def _start(self, broker: int, high_watermark: int) -> None:
        config = ReplicationConfig(broker_id=broker, replica_lag_time_max_ms=LAG_MS)
        self._replicas[broker] = PartitionReplica(
            config=config, high_watermark=high_watermark, log_end_offset=len(self._logs[broker])
        )

    def _handle(self, broker: int, event: Event) -> None:
        replica = self._replicas[broker]
        role = replica.role
        actions = replica.handle(event, self._now_ms)
        replica.check_invariants()
        if replica.role is not role:
            self._lines.append(f"  {broker} is {replica.role.value} in leader epoch {replica.leader_epoch}")
        for action in actions:
            self._perform(broker, action)

    def _perform(self, broker: int, action: Action) -> None:
        match action:
            case HighWatermarkAdvanced(high_watermark=high_watermark):
                self._lines.append(f"  {broker} knows: all below offset {high_watermark} is committed")
            case ProposeIsr(isr=isr):
                self._proposals.append((broker, action))
                self._lines.append(f"  {broker} proposes the ISR {list(isr)}")
            case CompleteProduce(token=token, error_code=error):
                told = "acknowledged" if error is ErrorCode.none else f"not acknowledged: {error.name.upper()}"
                self._lines.append(f"  {self._produced[token]} is {told}")
            case _:
                pass

    def _state(self, broker: int) -> str:
        log = self._logs[broker]
        replica = self._replicas.get(broker)
        if replica is None:
            return f"{broker} down; log: {_text(log)}"
        isr = f", ISR {list(replica.isr)}" if replica.is_leader else ""
        return (
            f"{broker} {replica.role.value} in leader epoch {replica.leader_epoch}{isr}; log: {_text(log)}; "
            f"committed below {replica.high_watermark}"
        )

    # -- records -----------------------------------------------------------------------------------------------------

    def _append(self, broker: int, value: str, *, acks: str) -> None:
        replica, log = self._replicas[broker], self._logs[broker]
        error = replica.check_append(acks=-1 if acks == "all" else 1)
        if error is not ErrorCode.none:
            self._lines.append(f"  {value} is refused: {error.name.upper()}")
            return
        log.append((replica.leader_epoch, value))
        self._lines.append(f"  {broker} appends {_text(log[-1:], len(log) - 1)}")
        self._handle(broker, Appended(log_end_offset=len(log)))
        if acks == "all":
            self._produced.append(value)
            wait = AwaitReplication(
                token=len(self._produced) - 1, required_offset=len(log), deadline_ms=self._now_ms + WAIT_MS
            )
            self._handle(broker, wait)
        else:
            self._lines.append(f"  {value} is acknowledged")

    def _fetch(self, follower: int, *, broker_epoch: int) -> None:
        """One Fetch: the records, or where the logs part."""
        me, log = self._replicas[follower], self._logs[follower]
        leader = self._replicas.get(me.leader_id)
        last_epoch = log[-1][0] if log else -1
        where = f"from offset {len(log)}" + (f" after epoch {last_epoch}" if log else "")
        self._lines.append(f"{follower}->{me.leader_id} Fetch: {where}, in leader epoch {me.leader_epoch}")
        if leader is None:
            self._lines.append("  no answer")
            return
        error = leader.check_leader_epoch(me.leader_epoch)
        if error is ErrorCode.none and not leader.is_leader:
            error = ErrorCode.not_leader_or_follower
        if error is not ErrorCode.none:
            self._lines.append(f"{me.leader_id}->{follower} answer: {error.name.upper()}")
            return
        theirs = self._logs[me.leader_id]
        diverging = diverging_epoch(
            lookup=lambda epoch: _end_of_epoch(theirs, leader.leader_epoch, epoch),
            last_fetched_epoch=last_epoch,
            fetch_offset=len(log),
            log_start_offset=0,
        )
        if diverging is not None:
            self._truncate(follower, diverging)
            return
        fetched = FollowerFetched(replica_id=follower, fetch_offset=len(log), broker_epoch=broker_epoch)
        self._handle(me.leader_id, fetched)
        new = theirs[len(log) :]
        high_watermark = leader.high_watermark
        answer = _text(new, len(log)) if new else "nothing new"
        self._lines.append(f"{me.leader_id}->{follower} answer: {answer}; committed below {high_watermark}")
        log.extend(new)
        self._handle(
            follower,
            FetchedFromLeader(
                leader_epoch=me.leader_epoch, leader_high_watermark=high_watermark, log_end_offset=len(log)
            ),
        )

    def _truncate(self, follower: int, diverging: EpochEnd) -> None:
        me, log = self._replicas[follower], self._logs[follower]
        self._lines.append(
            f"{me.leader_id}->{follower} answer: diverging, epoch {diverging.epoch} ends at {diverging.end_offset}"
        )
        end_offset = truncation_offset(
            lookup=lambda epoch: _end_of_epoch(log, log[-1][0], epoch),
            diverging=diverging,
            log_end_offset=len(log),
            high_watermark=me.high_watermark,
        )
        del log[end_offset:]
        self._lines.append(f"  {follower} cuts its log at offset {end_offset}")
        self._handle(follower, Truncated(log_end_offset=end_offset))

    # -- controller --------------------------------------------------------------------------------------------------

    def _tell(self, broker: int) -> None:
        """The image as it is now reaches this broker."""
        end_offset = len(self._logs[broker])
        if broker != self._leader:
            follow = BecomeFollower(
                leader_id=self._leader,
                leader_epoch=self._leader_epoch,
                partition_epoch=self._partition_epoch,
                isr=self._isr,
                replicas=self._brokers,
                log_end_offset=end_offset,
            )
            self._handle(broker, follow)
            return
        lead = BecomeLeader(
            leader_epoch=self._leader_epoch,
            partition_epoch=self._partition_epoch,
            isr=self._isr,
            replicas=self._brokers,
            log_end_offset=end_offset,
            min_insync_replicas=self._min_insync_replicas,
        )
        self._handle(broker, lead)
        eligible = {each: epoch for each, epoch in self._broker_epochs.items() if each not in self._fenced}
        self._handle(broker, BrokersChanged(eligible_epochs=eligible))

    def _elect(self, broker: int, *, is_unclean: bool) -> None:
        if is_unclean:
            self._isr = (broker,)
        assert broker in self._isr, f"{broker} is not in the ISR {self._isr}: only an unclean election takes it"
        self._leader = broker
        self._changed(is_new_epoch=True)

    def _fence(self, broker: int) -> None:
        self._fenced.add(broker)
        self._isr = tuple(each for each in self._isr if each != broker)
        self._changed(is_new_epoch=False)

    def _decide(self, answer: str) -> None:
        """On the oldest proposal, by the rules of AlterPartition."""
        broker, proposal = self._proposals.pop(0)
        made_in = (proposal.leader_epoch, proposal.partition_epoch)
        is_current = made_in == (self._leader_epoch, self._partition_epoch)
        is_eligible = all(
            each not in self._fenced and epoch in (-1, self._broker_epochs[each])
            for each, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True)
        )
        error = ErrorCode.none
        if not is_current:
            error = ErrorCode.invalid_update_version
        elif not is_eligible:
            error = ErrorCode.ineligible_replica
        else:
            self._isr = proposal.isr
            self._changed(is_new_epoch=False)
        if answer == "lost":
            error = ErrorCode.network_exception
        self._lines.append(f"  {broker} hears: {'agreed' if error is ErrorCode.none else error.name.upper()}")
        self._handle(broker, IsrProposalAnswered(attempt=proposal.attempt, error_code=int(error)))

    def _changed(self, *, is_new_epoch: bool) -> None:
        self._leader_epoch += int(is_new_epoch)
        self._partition_epoch += 1
        leader = f"leader {self._leader} in leader epoch {self._leader_epoch}, " if is_new_epoch else ""
        self._lines.append(f"  the controller commits: {leader}ISR {list(self._isr)}")


def _text(log: list[Record], first_offset: int = 0) -> str:
    return ", ".join(f"{o}@{epoch} {value}" for o, (epoch, value) in enumerate(log, start=first_offset)) or "empty"


def _end_of_epoch(log: list[Record], own_epoch: int, epoch: int) -> EpochEnd | None:
    """As the leader epoch cache of a log answers."""
    if epoch >= own_epoch:
        return EpochEnd(epoch=own_epoch, end_offset=len(log))
    known = [each for each, _ in log if each <= epoch]
    if not known:
        return EpochEnd(epoch=epoch, end_offset=0) if log else None
    return EpochEnd(epoch=known[-1], end_offset=len(known))
