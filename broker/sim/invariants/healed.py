"""Invariants that are checked at the end of a run, when the faults are healed, and in the aftermath of it."""

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class ClusterRecoversOnceTheFaultsAreOver(Invariant):
    """At the latest 12 seconds after the last fault every broker is up and unfenced, and every partition has a leader
    and all its replicas in sync.
    """

    NAME = "the cluster recovers once the faults are over"
    GROUP = Group.END


class EverythingSentGetsAnOutcome(Invariant):
    """Every send is acknowledged or fails, and at the end all replicas hold the same records."""

    NAME = "everything sent gets an outcome"
    GROUP = Group.END


class EveryRecordOfAShareGroupIsFinallyDone(Invariant):
    """Once the faults are over, share groups accept, reject or archive every record of the topic within 12 seconds."""

    NAME = "every record of a share group is finally done"
    GROUP = Group.END


class FollowersLearnWhatIsCommitted(Invariant):
    """Followers know the leader's high watermark 1.5 seconds after the last record."""

    NAME = "followers learn what is committed"
    GROUP = Group.END


class AcknowledgedRecordIsNotLost(Invariant):
    """A record that was acknowledged with acks=all is in the log of the leader."""

    NAME = "an acknowledged record is not lost"
    GROUP = Group.END

    def check(self, identity: bytes, offset: int, *, found: list[int]) -> None:
        if not found:
            self.violated(f"{identity!r} acknowledged at offset {offset}")


class AcknowledgedRecordIsWhereItWasSaid(Invariant):
    """An acknowledged record is at the offset that its acknowledgement named."""

    NAME = "an acknowledged record is where it was said"
    GROUP = Group.END

    def check(self, identity: bytes, offset: int, *, found: list[int]) -> None:
        if found and offset >= 0 and offset not in found:
            self.violated(f"{identity!r}: {offset}, found at {found}")


class WhatDefinitelyFailedIsNotInTheLog(Invariant):
    """A record whose send definitely failed is not in the log."""

    NAME = "what definitely failed is not in the log"
    GROUP = Group.END

    def check(self, identity: bytes, failed: set[bytes], *, found: list[int]) -> None:
        if identity in failed:
            self.violated(f"{identity!r} at {found}")


class IdempotenceNoRecordTwice(Invariant):
    """A record of an idempotent producer is in the log once."""

    NAME = "idempotence: no record twice"
    GROUP = Group.END

    def check(self, identity: bytes, *, found: list[int]) -> None:
        if len(found) > 1:
            self.violated(f"{identity!r} at {found}")


class IdempotentProducersRecordsKeepTheirOrder(Invariant):
    """The records of an idempotent producer are in the log in the order in which they were sent."""

    NAME = "an idempotent producer's records keep their order"
    GROUP = Group.END

    def check(self, where: str, numbers: list[int]) -> None:
        if numbers != sorted(numbers):
            self.violated(where)


class FollowerThatDoesNotFetchLeavesTheIsr(Invariant):
    """If a follower is cut off only from its leader, and there is something to replicate, it leaves the ISR within 1.5
    seconds.
    """

    NAME = "a follower that does not fetch leaves the ISR"
    GROUP = Group.END


class ClusterRecoversAfterARestart(Invariant):
    """The cluster is healthy again after a broker was restarted."""

    NAME = "the cluster recovers after a restart"
    GROUP = Group.AFTERMATH


class ClusterRecoversAfterALossOfPower(Invariant):
    """The cluster is healthy again after a host that lost its power is back."""

    NAME = "the cluster recovers after a loss of power"
    GROUP = Group.AFTERMATH


class BrokerStopsWhenAskedTo(Invariant):
    """A broker that is asked to stop ends."""

    NAME = "a broker stops when asked to"
    GROUP = Group.AFTERMATH


class IdleProducerIsForgotten(Invariant):
    """Every broker forgets a producer that was idle for longer than producer.id.expiration.ms."""

    NAME = "an idle producer is forgotten"
    GROUP = Group.AFTERMATH


class ProducerThatWasForgottenGoesOn(Invariant):
    """A producer that was forgotten continues without a new epoch, also after a restart of the leader."""

    NAME = "a producer that was forgotten goes on"
    GROUP = Group.AFTERMATH


class TopicIsMade(Invariant):
    """After CreateTopics the topic exists, with all its replicas."""

    NAME = "a topic is made"
    GROUP = Group.AFTERMATH


class TopicIsDeleted(Invariant):
    """After DeleteTopics the topic is no longer in the metadata."""

    NAME = "a topic is deleted"
    GROUP = Group.AFTERMATH


class LogGoesWithItsTopicWhoeverWasDown(Invariant):
    """The log of a deleted topic is removed from every broker, also from one that was down meanwhile."""

    NAME = "a log goes with its topic, whoever was down"
    GROUP = Group.AFTERMATH


class RequestOfTooManyElementsIsRefused(Invariant):
    """A request with too many elements is refused, and no other client waits for it."""

    NAME = "a request of too many elements is refused"
    GROUP = Group.AFTERMATH


class DamageIsNamed(Invariant):
    """A broker that starts with a damaged metadata log reports the damage."""

    NAME = "damage is named"
    GROUP = Group.AFTERMATH


class DamageIsNamedNotCut(Invariant):
    """No broker starts with a damaged metadata log and cuts off committed entries."""

    NAME = "damage is named, not cut"
    GROUP = Group.AFTERMATH


class ReplicasCatchUp(Invariant):
    """All replicas come to hold what their leader has written."""

    NAME = "replicas catch up"
    GROUP = Group.AFTERMATH


class OldSegmentsGo(Invariant):
    """Segments that are older than retention.ms are deleted."""

    NAME = "old segments go"
    GROUP = Group.AFTERMATH


class LogBeginsWhereItsLeaderSays(Invariant):
    """The log of every replica begins where the leader's log begins."""

    NAME = "a log begins where its leader says"
    GROUP = Group.AFTERMATH


class ReaderOfWhatIsGoneIsToldSoAndBeginsAtTheEarliest(Invariant):
    """A reader of a deleted offset gets OFFSET_OUT_OF_RANGE and can read everything from the earliest offset on."""

    NAME = "a reader of what is gone is told so, and begins at the earliest"
    GROUP = Group.AFTERMATH


class DeleteRecordsIsAnswered(Invariant):
    """A DeleteRecords request gets an answer."""

    NAME = "DeleteRecords is answered"
    GROUP = Group.AFTERMATH


class PreferredReplicaLeadsWhenAskedTo(Invariant):
    """The preferred replica of a partition leads after a preferred election."""

    NAME = "the preferred replica leads when asked to"
    GROUP = Group.AFTERMATH


class CleanerCompactsWhatIsDirty(Invariant):
    """The log cleaner compacts a log with dirty segments."""

    NAME = "a cleaner compacts what is dirty"
    GROUP = Group.AFTERMATH


class ItsReplicaGoesOffline(Invariant):
    """A replica whose compaction failed on the disk goes offline."""

    NAME = "its replica goes offline"
    GROUP = Group.AFTERMATH


class LeadershipIsHandedOn(Invariant):
    """A partition gets another leader when the replica of its leader goes offline."""

    NAME = "leadership is handed on"
    GROUP = Group.AFTERMATH


class CompactionGoesOnAfterARestart(Invariant):
    """A compaction that was interrupted completes after a restart."""

    NAME = "a compaction goes on after a restart"
    GROUP = Group.AFTERMATH


class CompactionKeepsTheLastRecordOfEachKeyAndChangesNone(Invariant):
    """After a compaction every replica holds the last record of each key, and no record that was never written."""

    NAME = "compaction keeps the last record of each key, and changes none"
    GROUP = Group.AFTERMATH
