"""The table of what an answer to a Produce request proves."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker.wire.fates import FATES, Proof, is_definite, proof_of

# What Apache Kafka's leader may answer once the batch is in its log: while the append waits for its followers.
AFTER_THE_APPEND = (-1, 3, 6, 7, 20, 56)


def test_nothing_that_may_follow_an_append_is_definite() -> None:
    assert [code for code in AFTER_THE_APPEND if is_definite(code)] == []


def test_a_code_that_the_table_does_not_have_proves_nothing() -> None:
    unlisted = [int(code) for code in ErrorCode if code not in FATES]
    assert {proof_of(code) for code in [*unlisted, 31_000, -7]} == {Proof.NONE}
    assert ErrorCode.none not in FATES


def test_a_repeated_sequence_was_appended_before() -> None:
    assert not is_definite(ErrorCode.duplicate_sequence_number)


def test_only_what_no_setting_changes_is_refused_in_every_attempt() -> None:
    always = {code for code, fate in FATES.items() if fate.proof is Proof.EVERY_ATTEMPT}
    assert always == {ErrorCode.invalid_topic_exception, ErrorCode.invalid_required_acks}


def test_each_entry_stands_under_its_own_code_and_has_a_reason_and_a_source() -> None:
    for code, fate in FATES.items():
        assert code is fate.code
        assert fate.reason
        assert fate.source


def test_a_definite_refusal_is_definite() -> None:
    assert is_definite(ErrorCode.not_enough_replicas)
    assert is_definite(ErrorCode.message_too_large)
