"""The invariants of the simulation, one class per file. `INVARIANTS` holds all of them, in the order of the page."""

from broker.sim.invariants.accepted_record_is_not_delivered_again import AcceptedRecordIsNotDeliveredAgain
from broker.sim.invariants.acknowledged_means_committed import AcknowledgedMeansCommitted
from broker.sim.invariants.acknowledged_record_is_not_lost import AcknowledgedRecordIsNotLost
from broker.sim.invariants.acknowledged_record_is_where_it_was_said import AcknowledgedRecordIsWhereItWasSaid
from broker.sim.invariants.broker_does_not_fail import BrokerDoesNotFail
from broker.sim.invariants.broker_starts import BrokerStarts
from broker.sim.invariants.broker_stops_when_asked_to import BrokerStopsWhenAskedTo
from broker.sim.invariants.cleaner_compacts_what_is_dirty import CleanerCompactsWhatIsDirty
from broker.sim.invariants.client_does_not_fail import ClientDoesNotFail
from broker.sim.invariants.cluster_recovers_after_a_loss_of_power import ClusterRecoversAfterALossOfPower
from broker.sim.invariants.cluster_recovers_after_a_restart import ClusterRecoversAfterARestart
from broker.sim.invariants.cluster_recovers_once_the_faults_are_over import ClusterRecoversOnceTheFaultsAreOver
from broker.sim.invariants.committed_means_on_min_insync_replicas_brokers import (
    CommittedMeansOnMinInsyncReplicasBrokers,
)
from broker.sim.invariants.committed_metadata_is_never_changed import CommittedMetadataIsNeverChanged
from broker.sim.invariants.committed_metadata_is_never_lost import CommittedMetadataIsNeverLost
from broker.sim.invariants.committed_offset_is_neither_lost_nor_goes_back import CommittedOffsetIsNeitherLostNorGoesBack
from broker.sim.invariants.committed_offset_is_never_out_of_range import CommittedOffsetIsNeverOutOfRange
from broker.sim.invariants.committed_record_is_never_lost import CommittedRecordIsNeverLost
from broker.sim.invariants.committed_record_never_changes import CommittedRecordNeverChanges
from broker.sim.invariants.committed_transaction_is_whole import CommittedTransactionIsWhole
from broker.sim.invariants.compaction_goes_on_after_a_restart import CompactionGoesOnAfterARestart
from broker.sim.invariants.compaction_keeps_the_last_record_of_each_key_and_changes_none import (
    CompactionKeepsTheLastRecordOfEachKeyAndChangesNone,
)
from broker.sim.invariants.consumers_read_committed_records_only import ConsumersReadCommittedRecordsOnly
from broker.sim.invariants.cores_own_invariants import CoresOwnInvariants
from broker.sim.invariants.damage_is_named import DamageIsNamed
from broker.sim.invariants.damage_is_named_not_cut import DamageIsNamedNotCut
from broker.sim.invariants.damaged_batch_is_refused import DamagedBatchIsRefused
from broker.sim.invariants.delete_records_is_answered import DeleteRecordsIsAnswered
from broker.sim.invariants.delivery_count_only_grows import DeliveryCountOnlyGrows
from broker.sim.invariants.eligible_replicas_hold_all_that_is_committed import EligibleReplicasHoldAllThatIsCommitted
from broker.sim.invariants.equal_offsets_mean_equal_images import EqualOffsetsMeanEqualImages
from broker.sim.invariants.event_loop_answers_within_a_session import EventLoopAnswersWithinASession
from broker.sim.invariants.every_batch_in_a_log_is_whole import EveryBatchInALogIsWhole
from broker.sim.invariants.every_record_of_a_share_group_is_finally_done import EveryRecordOfAShareGroupIsFinallyDone
from broker.sim.invariants.everything_sent_gets_an_outcome import EverythingSentGetsAnOutcome
from broker.sim.invariants.fenced_producer_writes_nothing import FencedProducerWritesNothing
from broker.sim.invariants.follower_that_does_not_fetch_leaves_the_isr import FollowerThatDoesNotFetchLeavesTheIsr
from broker.sim.invariants.followers_learn_what_is_committed import FollowersLearnWhatIsCommitted
from broker.sim.invariants.high_watermark_never_falls_within_an_epoch import HighWatermarkNeverFallsWithinAnEpoch
from broker.sim.invariants.idempotence_no_batch_is_missing import IdempotenceNoBatchIsMissing
from broker.sim.invariants.idempotence_no_batch_twice import IdempotenceNoBatchTwice
from broker.sim.invariants.idempotence_no_record_twice import IdempotenceNoRecordTwice
from broker.sim.invariants.idempotent_producers_records_keep_their_order import IdempotentProducersRecordsKeepTheirOrder
from broker.sim.invariants.idle_producer_is_forgotten import IdleProducerIsForgotten
from broker.sim.invariants.invariant import Fail, Group, Invariant
from broker.sim.invariants.its_replica_goes_offline import ItsReplicaGoesOffline
from broker.sim.invariants.last_stable_offset_never_falls_within_an_epoch import LastStableOffsetNeverFallsWithinAnEpoch
from broker.sim.invariants.leader_epochs_only_grow import LeaderEpochsOnlyGrow
from broker.sim.invariants.leader_is_in_its_isr import LeaderIsInItsIsr
from broker.sim.invariants.leadership_is_handed_on import LeadershipIsHandedOn
from broker.sim.invariants.log_begins_where_its_leader_says import LogBeginsWhereItsLeaderSays
from broker.sim.invariants.log_goes_with_its_topic_whoever_was_down import LogGoesWithItsTopicWhoeverWasDown
from broker.sim.invariants.log_matching import LogMatching
from broker.sim.invariants.member_gets_the_records_that_it_acquires import MemberGetsTheRecordsThatItAcquires
from broker.sim.invariants.members_of_the_isr_hold_all_that_is_committed import MembersOfTheIsrHoldAllThatIsCommitted
from broker.sim.invariants.metadata_log_matching import MetadataLogMatching
from broker.sim.invariants.new_leader_has_a_new_epoch import NewLeaderHasANewEpoch
from broker.sim.invariants.no_handler_raises import NoHandlerRaises
from broker.sim.invariants.no_unclean_election_unless_allowed import NoUncleanElectionUnlessAllowed
from broker.sim.invariants.nothing_joins_a_transaction_that_has_ended import NothingJoinsATransactionThatHasEnded
from broker.sim.invariants.offsets_are_a_part_of_their_transaction import OffsetsAreAPartOfTheirTransaction
from broker.sim.invariants.offsets_of_a_partition_ascend import OffsetsOfAPartitionAscend
from broker.sim.invariants.old_segments_go import OldSegmentsGo
from broker.sim.invariants.one_controller_per_epoch import OneControllerPerEpoch
from broker.sim.invariants.one_holder_of_a_record_at_a_time import OneHolderOfARecordAtATime
from broker.sim.invariants.one_leader_per_epoch import OneLeaderPerEpoch
from broker.sim.invariants.one_owner_of_a_partition_at_a_time import OneOwnerOfAPartitionAtATime
from broker.sim.invariants.one_owner_of_a_partition_per_generation import OneOwnerOfAPartitionPerGeneration
from broker.sim.invariants.one_vote_per_epoch import OneVotePerEpoch
from broker.sim.invariants.only_its_producer_commits_a_transaction import OnlyItsProducerCommitsATransaction
from broker.sim.invariants.only_what_was_asked_for_is_committed import OnlyWhatWasAskedForIsCommitted
from broker.sim.invariants.preferred_replica_leads_when_asked_to import PreferredReplicaLeadsWhenAskedTo
from broker.sim.invariants.producer_that_was_forgotten_goes_on import ProducerThatWasForgottenGoesOn
from broker.sim.invariants.proposed_isr_counts_until_it_is_answered import ProposedIsrCountsUntilItIsAnswered
from broker.sim.invariants.quorum_high_watermark_never_falls import QuorumHighWatermarkNeverFalls
from broker.sim.invariants.reader_of_what_is_gone_is_told_so_and_begins_at_the_earliest import (
    ReaderOfWhatIsGoneIsToldSoAndBeginsAtTheEarliest,
)
from broker.sim.invariants.readers_see_committed_transactions_only import ReadersSeeCommittedTransactionsOnly
from broker.sim.invariants.reassignment_ends_with_its_target_in_sync import ReassignmentEndsWithItsTargetInSync
from broker.sim.invariants.replica_that_may_have_lost_records_is_not_eligible import (
    ReplicaThatMayHaveLostRecordsIsNotEligible,
)
from broker.sim.invariants.replicas_catch_up import ReplicasCatchUp
from broker.sim.invariants.request_of_too_many_elements_is_refused import RequestOfTooManyElementsIsRefused
from broker.sim.invariants.run_ends import RunEnds
from broker.sim.invariants.share_start_offset_passes_final_records_only import ShareStartOffsetPassesFinalRecordsOnly
from broker.sim.invariants.share_state_is_read_back_as_confirmed import ShareStateIsReadBackAsConfirmed
from broker.sim.invariants.simulation_does_not_raise import SimulationDoesNotRaise
from broker.sim.invariants.snapshot_holds_committed_entries_only import SnapshotHoldsCommittedEntriesOnly
from broker.sim.invariants.topic_is_deleted import TopicIsDeleted
from broker.sim.invariants.topic_is_made import TopicIsMade
from broker.sim.invariants.transaction_ends_as_its_producer_was_told import TransactionEndsAsItsProducerWasTold
from broker.sim.invariants.transaction_ends_the_same_everywhere import TransactionEndsTheSameEverywhere
from broker.sim.invariants.what_a_replica_has_stored_is_there_in_its_next_life import (
    WhatAReplicaHasStoredIsThereInItsNextLife,
)
from broker.sim.invariants.what_a_voter_tells_is_on_its_disk import WhatAVoterTellsIsOnItsDisk
from broker.sim.invariants.what_definitely_failed_is_not_in_the_log import WhatDefinitelyFailedIsNotInTheLog

INVARIANTS: tuple[type[Invariant], ...] = (
    OneControllerPerEpoch,
    OneVotePerEpoch,
    WhatAVoterTellsIsOnItsDisk,
    MetadataLogMatching,
    EqualOffsetsMeanEqualImages,
    SnapshotHoldsCommittedEntriesOnly,
    CommittedMetadataIsNeverLost,
    CommittedMetadataIsNeverChanged,
    QuorumHighWatermarkNeverFalls,
    LeaderEpochsOnlyGrow,
    NewLeaderHasANewEpoch,
    LeaderIsInItsIsr,
    NoUncleanElectionUnlessAllowed,
    ReplicaThatMayHaveLostRecordsIsNotEligible,
    ReassignmentEndsWithItsTargetInSync,
    OneLeaderPerEpoch,
    LogMatching,
    EveryBatchInALogIsWhole,
    CommittedRecordIsNeverLost,
    CommittedRecordNeverChanges,
    CommittedMeansOnMinInsyncReplicasBrokers,
    MembersOfTheIsrHoldAllThatIsCommitted,
    EligibleReplicasHoldAllThatIsCommitted,
    ProposedIsrCountsUntilItIsAnswered,
    HighWatermarkNeverFallsWithinAnEpoch,
    WhatAReplicaHasStoredIsThereInItsNextLife,
    IdempotenceNoBatchTwice,
    IdempotenceNoBatchIsMissing,
    AcknowledgedMeansCommitted,
    ConsumersReadCommittedRecordsOnly,
    CommittedOffsetIsNeverOutOfRange,
    OffsetsOfAPartitionAscend,
    DamagedBatchIsRefused,
    ClientDoesNotFail,
    TransactionEndsTheSameEverywhere,
    OnlyItsProducerCommitsATransaction,
    TransactionEndsAsItsProducerWasTold,
    NothingJoinsATransactionThatHasEnded,
    FencedProducerWritesNothing,
    LastStableOffsetNeverFallsWithinAnEpoch,
    ReadersSeeCommittedTransactionsOnly,
    CommittedTransactionIsWhole,
    OffsetsAreAPartOfTheirTransaction,
    OneOwnerOfAPartitionPerGeneration,
    OneOwnerOfAPartitionAtATime,
    CommittedOffsetIsNeitherLostNorGoesBack,
    OnlyWhatWasAskedForIsCommitted,
    AcceptedRecordIsNotDeliveredAgain,
    OneHolderOfARecordAtATime,
    DeliveryCountOnlyGrows,
    ShareStartOffsetPassesFinalRecordsOnly,
    ShareStateIsReadBackAsConfirmed,
    MemberGetsTheRecordsThatItAcquires,
    EventLoopAnswersWithinASession,
    NoHandlerRaises,
    BrokerDoesNotFail,
    BrokerStarts,
    CoresOwnInvariants,
    RunEnds,
    SimulationDoesNotRaise,
    ClusterRecoversOnceTheFaultsAreOver,
    EverythingSentGetsAnOutcome,
    EveryRecordOfAShareGroupIsFinallyDone,
    FollowersLearnWhatIsCommitted,
    AcknowledgedRecordIsNotLost,
    AcknowledgedRecordIsWhereItWasSaid,
    WhatDefinitelyFailedIsNotInTheLog,
    IdempotenceNoRecordTwice,
    IdempotentProducersRecordsKeepTheirOrder,
    FollowerThatDoesNotFetchLeavesTheIsr,
    ClusterRecoversAfterARestart,
    ClusterRecoversAfterALossOfPower,
    BrokerStopsWhenAskedTo,
    IdleProducerIsForgotten,
    ProducerThatWasForgottenGoesOn,
    TopicIsMade,
    TopicIsDeleted,
    LogGoesWithItsTopicWhoeverWasDown,
    RequestOfTooManyElementsIsRefused,
    DamageIsNamed,
    DamageIsNamedNotCut,
    ReplicasCatchUp,
    OldSegmentsGo,
    LogBeginsWhereItsLeaderSays,
    ReaderOfWhatIsGoneIsToldSoAndBeginsAtTheEarliest,
    DeleteRecordsIsAnswered,
    PreferredReplicaLeadsWhenAskedTo,
    CleanerCompactsWhatIsDirty,
    ItsReplicaGoesOffline,
    LeadershipIsHandedOn,
    CompactionGoesOnAfterARestart,
    CompactionKeepsTheLastRecordOfEachKeyAndChangesNone,
)

__all__ = [
    "INVARIANTS",
    "AcceptedRecordIsNotDeliveredAgain",
    "AcknowledgedMeansCommitted",
    "AcknowledgedRecordIsNotLost",
    "AcknowledgedRecordIsWhereItWasSaid",
    "BrokerDoesNotFail",
    "BrokerStarts",
    "BrokerStopsWhenAskedTo",
    "CleanerCompactsWhatIsDirty",
    "ClientDoesNotFail",
    "ClusterRecoversAfterALossOfPower",
    "ClusterRecoversAfterARestart",
    "ClusterRecoversOnceTheFaultsAreOver",
    "CommittedMeansOnMinInsyncReplicasBrokers",
    "CommittedMetadataIsNeverChanged",
    "CommittedMetadataIsNeverLost",
    "CommittedOffsetIsNeitherLostNorGoesBack",
    "CommittedOffsetIsNeverOutOfRange",
    "CommittedRecordIsNeverLost",
    "CommittedRecordNeverChanges",
    "CommittedTransactionIsWhole",
    "CompactionGoesOnAfterARestart",
    "CompactionKeepsTheLastRecordOfEachKeyAndChangesNone",
    "ConsumersReadCommittedRecordsOnly",
    "CoresOwnInvariants",
    "DamageIsNamed",
    "DamageIsNamedNotCut",
    "DamagedBatchIsRefused",
    "DeleteRecordsIsAnswered",
    "DeliveryCountOnlyGrows",
    "EligibleReplicasHoldAllThatIsCommitted",
    "EqualOffsetsMeanEqualImages",
    "EventLoopAnswersWithinASession",
    "EveryBatchInALogIsWhole",
    "EveryRecordOfAShareGroupIsFinallyDone",
    "EverythingSentGetsAnOutcome",
    "Fail",
    "FencedProducerWritesNothing",
    "FollowerThatDoesNotFetchLeavesTheIsr",
    "FollowersLearnWhatIsCommitted",
    "Group",
    "HighWatermarkNeverFallsWithinAnEpoch",
    "IdempotenceNoBatchIsMissing",
    "IdempotenceNoBatchTwice",
    "IdempotenceNoRecordTwice",
    "IdempotentProducersRecordsKeepTheirOrder",
    "IdleProducerIsForgotten",
    "Invariant",
    "ItsReplicaGoesOffline",
    "LastStableOffsetNeverFallsWithinAnEpoch",
    "LeaderEpochsOnlyGrow",
    "LeaderIsInItsIsr",
    "LeadershipIsHandedOn",
    "LogBeginsWhereItsLeaderSays",
    "LogGoesWithItsTopicWhoeverWasDown",
    "LogMatching",
    "MemberGetsTheRecordsThatItAcquires",
    "MembersOfTheIsrHoldAllThatIsCommitted",
    "MetadataLogMatching",
    "NewLeaderHasANewEpoch",
    "NoHandlerRaises",
    "NoUncleanElectionUnlessAllowed",
    "NothingJoinsATransactionThatHasEnded",
    "OffsetsAreAPartOfTheirTransaction",
    "OffsetsOfAPartitionAscend",
    "OldSegmentsGo",
    "OneControllerPerEpoch",
    "OneHolderOfARecordAtATime",
    "OneLeaderPerEpoch",
    "OneOwnerOfAPartitionAtATime",
    "OneOwnerOfAPartitionPerGeneration",
    "OneVotePerEpoch",
    "OnlyItsProducerCommitsATransaction",
    "OnlyWhatWasAskedForIsCommitted",
    "PreferredReplicaLeadsWhenAskedTo",
    "ProducerThatWasForgottenGoesOn",
    "ProposedIsrCountsUntilItIsAnswered",
    "QuorumHighWatermarkNeverFalls",
    "ReaderOfWhatIsGoneIsToldSoAndBeginsAtTheEarliest",
    "ReadersSeeCommittedTransactionsOnly",
    "ReassignmentEndsWithItsTargetInSync",
    "ReplicaThatMayHaveLostRecordsIsNotEligible",
    "ReplicasCatchUp",
    "RequestOfTooManyElementsIsRefused",
    "RunEnds",
    "ShareStartOffsetPassesFinalRecordsOnly",
    "ShareStateIsReadBackAsConfirmed",
    "SimulationDoesNotRaise",
    "SnapshotHoldsCommittedEntriesOnly",
    "TopicIsDeleted",
    "TopicIsMade",
    "TransactionEndsAsItsProducerWasTold",
    "TransactionEndsTheSameEverywhere",
    "WhatAReplicaHasStoredIsThereInItsNextLife",
    "WhatAVoterTellsIsOnItsDisk",
    "WhatDefinitelyFailedIsNotInTheLog",
]
