"""What a seed decides before the run: the size of the cluster, the topic, the workload and the list of faults."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

TOPIC = "t"
AFTERMATH_SHARE = 0.2
REAL_MEMBERS = (0, 0, 0, 0, 0, 0, 0, 2)
SHARE_MEMBERS = (0, 0, 0, 0, 4)
REAL_PRODUCERS = (0, 0, 0, 0, 1)
LATE_ANSWERS_SHARE = 0.3
REASSIGNMENTS = (0, 0, 0, 2, 4)
LAST_ONE_STANDING_SHARE = 0.06
DIRECTED = {"figure eight": 1, "crash after vote": 3, "earlier life": 2}  # schedule -> weight
FAULTS_BEGIN_US = 1_200_000  # The cluster has elected a controller and created the topic at that time.
FAULTS_END_US = 6_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    seed: int
    brokers: int
    partitions: int
    replication_factor: int
    min_insync_replicas: int
    segment_bytes: int
    flush_messages: int | None  # 1: acknowledged records are synced, so they survive any loss of power
    unclean: bool
    producers: int
    record_gap_us: int  # mean time between two records of a producer
    faults: int
    quorum_fetch_bytes: int = 1 << 20  # 1: one entry of the metadata log per fetch
    directed: str = ""  # name of a schedule of several steps (broker.sim.directed), "" for none
    snapshot_bytes: int | None = None  # bytes of metadata records between two snapshots, which also shorten the log
    transactional_producers: int = 0
    real_producers: int = 0  # transactional producers of the reference client
    real_members: int = 0  # consumers of the reference client, in a group
    classic_members: int = 0
    consumer_members: int = 0  # members of a KIP-848 group
    share_members: int = 0  # members of a share group (KIP-932)
    leader_moves: int = 0  # number of preferred elections; fetchers then change leaders without a failure of a broker
    reassignments: int = 0  # how often a partition is reassigned, or its reassignment is cancelled
    # How many fetch sessions a broker keeps. If there are few, some followers have no session, or lose theirs.
    fetch_session_slots: int = 1000
    has_strangers: bool = False  # producers begin with sequences that Kafka's producers never begin with
    disk_faults: int = 0  # additional faults: calls on files of a partition or of the quorum fail
    # After the faults one follower is cut off from its leader, and must leave the ISR.
    has_lonely_follower: bool = False

    # Answers of the controller to ISR proposals come late. By then there may be newer proposals.
    has_late_answers: bool = False
    has_aftermath: bool = (
        False  # afterwards: an idle day, a topic deleted while a replica is down, rot, and more (broker.sim.aftermath)
    )
    left_out: frozenset[str] = frozenset()  # steps of the faults that are not done, by their names (broker.sim.shrink)

    @property
    def can_lose_power_unsynced(self) -> bool:
        return self.flush_messages is None

    def topic_configs(self) -> dict[str, str]:
        configs = {
            "min.insync.replicas": str(self.min_insync_replicas),
            "segment.bytes": str(self.segment_bytes),
            "unclean.leader.election.enable": str(self.unclean).lower(),
        }
        if self.flush_messages is not None:
            configs["flush.messages"] = str(self.flush_messages)
        return configs


def settings_of(seed: int) -> Settings:
    rng = random.Random(f"settings {seed}")
    brokers = rng.choice((3, 3, 3, 3, 3, 3, 4, 5))
    replication_factor = rng.choice((2, 3, 3, 3))
    directed = rng.choices(("", *DIRECTED), weights=(16, *DIRECTED.values()))[0] if brokers == 3 else ""
    flush_messages = rng.choice((1, 1, None))
    unclean = rng.random() < 0.2
    drawn = Settings(
        seed=seed,
        brokers=brokers,
        partitions=rng.choice((1, 2)),
        replication_factor=replication_factor,
        min_insync_replicas=rng.choice((1, 2, 2)) if replication_factor == 3 else rng.choice((1, 1, 2)),
        segment_bytes=rng.choice((1_024, 2_000, 1 << 20)),
        flush_messages=None if directed == "earlier life" else flush_messages,
        unclean=unclean,
        producers=rng.choice((1, 2)),
        record_gap_us=rng.choice((30_000, 60_000)),
        faults=rng.randint(3, 9),
        quorum_fetch_bytes=1 if directed == "figure eight" else rng.choice((1, 1 << 20)),
        directed=directed,
        snapshot_bytes=None if directed == "figure eight" else rng.choice((None, 200, 600)),
        transactional_producers=0 if unclean else rng.choice((0, 0, 1, 2)),
        real_producers=0 if unclean else random.Random(f"real producers of {seed}").choice(REAL_PRODUCERS),
        real_members=0 if unclean else random.Random(f"real members of {seed}").choice(REAL_MEMBERS),
        classic_members=0 if unclean else rng.choice((0, 0, 0, 2, 3)),
        consumer_members=0 if unclean else rng.choice((0, 0, 0, 2, 3)),
        has_lonely_follower=rng.random() < 0.2,
        fetch_session_slots=rng.choice((1000, 1000, 1000, 2, 1)),
        share_members=0 if unclean else random.Random(f"share members of {seed}").choice(SHARE_MEMBERS),
        leader_moves=0 if directed else rng.choice((0, 3, 6)),
        reassignments=0 if directed else random.Random(f"other replicas of {seed}").choice(REASSIGNMENTS),
        disk_faults=rng.choice((0, 1, 2, 4)),
        has_late_answers=random.Random(f"late answers of {seed}").random() < LATE_ANSWERS_SHARE,
        has_aftermath=random.Random(f"aftermath of {seed}").random() < AFTERMATH_SHARE,
    )
    # A random generator of its own, so that this schedule does not change the other seeds.
    draw = random.Random(f"last one standing of {seed}").random()
    may_be = brokers == 3 and not directed and not unclean
    return _last_one_standing(drawn) if may_be and draw < LAST_ONE_STANDING_SHARE else drawn


def _last_one_standing(drawn: Settings) -> Settings:
    """The settings that this schedule needs. Its seed has no other faults."""
    return replace(
        drawn,
        directed="last one standing",
        replication_factor=3,
        min_insync_replicas=2,
        flush_messages=None,
        disk_faults=0,
        leader_moves=0,
        reassignments=0,
    )
