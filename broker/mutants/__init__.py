"""Deliberately wrong brokers: each file replaces one function by a wrong one. They test the tests and have no other
use.

A mutant is chosen by name at start-up: `python -m broker.mutants FILE.properties` with `harness.mutant=NAME` in the
file, or `--mutant NAME` of broker.sim. `python -m broker.sim.mutation` runs the simulation over each mutant and writes
docs/reference/mutants.md. If no seed catches a mutant, the checks do not notice its mistake.

The file of a mutant has a docstring, whose first line says what is wrong, and `apply(patch)`. Some also have
`is_reached(plan)`, which says whether a seed can catch the mutant. Other seeds do not have to be run.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan

MUTANTS = (
    "aborted_transactions_not_told",
    "acknowledge_before_replication",
    "broker_epoch_ignored",
    "commit_by_majority",
    "commit_of_earlier_epoch",
    "commits_not_replicated",
    "controller_answers_before_commit",
    "crc_ignored_on_append",
    "crc_ignored_on_recovery",
    "directory_not_synced",
    "elements_not_limited",
    "expansion_without_catching_up",
    "fetch_counts_before_it_is_stored",
    "fetch_session_forgets_who_must_join",
    "fetch_session_keeps_the_high_watermark",
    "fetch_session_keeps_the_offset",
    "first_sequence_anything",
    "flush_ignored",
    "forgotten_producer_refused",
    "generation_not_checked",
    "high_watermark_falls",
    "high_watermark_ignored",
    "isr_counts_before_the_log_tells_it",
    "isr_never_shrinks",
    "last_stable_offset_ignored",
    "leader_epoch_kept",
    "leader_epoch_not_checked",
    "log_start_not_followed",
    "marker_lost",
    "memory_before_disk",
    "metadata_log_not_synced",
    "metadata_log_not_truncated",
    "min_insync_replicas_ignored",
    "offline_replica_elected",
    "old_image_believed",
    "partition_epoch_ignored",
    "partition_given_before_release",
    "partitions_opened_at_once",
    "producer_epoch_ignored",
    "producer_state_lost",
    "read_error_fails_the_fetch",
    "reassignment_without_catching_up",
    "recovery_on_the_loop",
    "rot_cut_as_a_torn_tail",
    "segment_directory_not_synced",
    "sequences_not_checked",
    "share_answer_before_state",
    "share_counts_forgotten",
    "share_deliveries_unlimited",
    "share_lock_ends_early",
    "share_records_left_out",
    "share_start_passes_open_records",
    "share_state_confirmed_unwritten",
    "share_state_pruned_too_far",
    "snapshot_without_configs",
    "stray_kept",
    "swallow_quorum_io_error",
    "swap_undone",
    "transaction_never_times_out",
    "transactional_offsets_at_once",
    "truncation_never",
    "truncation_to_high_watermark",
    "two_votes_in_one_epoch",
    "unclean_election_always",
    "unclean_shutdown_ignored",
    "unsynced_segments_trusted",
    "vote_for_a_shorter_log",
    "vote_not_persisted",
)


class MutantError(ValueError):
    """There is no mutant with this name."""


class Patch:
    """Replaces attributes of classes and modules, and can put them back."""

    def __init__(self) -> None:
        self._originals: list[tuple[Any, str, Any]] = []  # Any: a module or a class, and its attribute

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Set the attribute to `value`. Returns the old value."""
        original = owner.__dict__[name]
        self._originals.append((owner, name, original))
        setattr(owner, name, value)
        return original

    def undo(self) -> None:
        while self._originals:
            owner, name, original = self._originals.pop()
            setattr(owner, name, original)


def apply(name: str) -> Patch:
    """Put the mutant in place. Raises MutantError for an unknown name."""
    if name not in MUTANTS:
        near = difflib.get_close_matches(name, MUTANTS, n=1, cutoff=0.4)
        advice = f", nearest is {near[0]!r}" if near else ""
        raise MutantError(f"no mutant {name!r}{advice}; see docs/reference/mutants.md")
    patch = Patch()
    importlib.import_module(f"broker.mutants.{name}").apply(patch)
    return patch


@contextlib.contextmanager
def applied(name: str | None) -> Iterator[None]:
    """Within this context the mutant is in place. None: no mutant."""
    if name is None:
        yield
        return
    patch = apply(name)
    try:
        yield
    finally:
        patch.undo()


def is_reached(name: str, plan: SeedPlan) -> bool:
    """Whether a seed with this plan reaches the code that the mutant changes. The mutant's file may decide this."""
    says = getattr(importlib.import_module(f"broker.mutants.{name}"), "is_reached", None)
    return says is None or bool(says(plan))


def description(name: str) -> str:
    """What is wrong with the mutant."""
    document = importlib.import_module(f"broker.mutants.{name}").__doc__ or ""
    return document.strip().splitlines()[0]
