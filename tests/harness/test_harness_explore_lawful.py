"""`chaos.lawful_answers`: what stands in the table of errors, held against what Apache Kafka 4.3.1 says of them."""

from __future__ import annotations

from chaos.lawful_answers import ANSWERS, Reaction, answers_of

# Whose exception is a RetriableException there (org.apache.kafka.common.protocol.Errors). The rest is final for a call.
RETRIABLE = """
    CORRUPT_MESSAGE UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER REQUEST_TIMED_OUT
    COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR NOT_ENOUGH_REPLICAS
    NOT_ENOUGH_REPLICAS_AFTER_APPEND CONCURRENT_TRANSACTIONS KAFKA_STORAGE_ERROR FETCH_SESSION_ID_NOT_FOUND
    INVALID_FETCH_SESSION_EPOCH LISTENER_NOT_FOUND FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH OFFSET_NOT_AVAILABLE
    UNSTABLE_OFFSET_COMMIT UNKNOWN_TOPIC_ID INCONSISTENT_TOPIC_ID
    SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH SHARE_SESSION_LIMIT_REACHED
""".split()  # noqa: SIM905


def names(api: str, version: int, *, is_transactional: bool = True) -> set[str]:
    return {answer.name for answer in answers_of(api, version, is_transactional=is_transactional)}


def test_a_client_must_repeat_only_what_kafka_calls_retriable() -> None:
    assert [one for one in ANSWERS if one.reaction is Reaction.RETRY and one.name not in RETRIABLE] == []


def test_every_code_can_be_sent_by_a_proxy() -> None:
    """-1 (UNKNOWN_SERVER_ERROR) only instead of the work: to a toxic that edits answers it means that it sets none."""
    assert [one for one in ANSWERS if not 1 <= one.code <= 32_767 and (one.code != -1 or one.is_after_work)] == []


def test_each_answer_says_where_kafka_gives_it_and_stands_once() -> None:
    assert [one for one in ANSWERS if not one.source] == []
    assert len({(one.api, one.name, one.is_after_work) for one in ANSWERS}) == len(ANSWERS)


def test_a_producer_without_a_transactional_id_asks_no_coordinator() -> None:
    assert names("InitProducerId", 4, is_transactional=False) == {
        "COORDINATOR_LOAD_IN_PROGRESS",
        "CLUSTER_AUTHORIZATION_FAILED",
        "UNKNOWN_SERVER_ERROR",
    }
    assert "NOT_COORDINATOR" in names("InitProducerId", 4)
    assert not {"INVALID_TXN_STATE", "TRANSACTION_ABORTABLE"} & names("Produce", 12, is_transactional=False)


def test_an_error_that_another_one_replaced_is_given_to_old_versions_only() -> None:
    assert {"LEADER_NOT_AVAILABLE"} == names("ListOffsets", 4) - names("ListOffsets", 5)
    assert {"OFFSET_NOT_AVAILABLE"} == names("ListOffsets", 5) - names("ListOffsets", 4)


def test_what_only_old_brokers_or_other_apis_give_is_not_in_the_table() -> None:
    """A heartbeat to a coordinator that still loads is answered without an error."""
    every = {(one.api, one.name) for one in ANSWERS}
    assert (
        not {
            ("Fetch", "REPLICA_NOT_AVAILABLE"),
            ("Fetch", "OFFSET_NOT_AVAILABLE"),
            ("FindCoordinator", "COORDINATOR_LOAD_IN_PROGRESS"),
            ("JoinGroup", "REBALANCE_IN_PROGRESS"),
            ("Heartbeat", "COORDINATOR_LOAD_IN_PROGRESS"),
            ("Produce", "UNKNOWN_PRODUCER_ID"),
            ("Produce", "CLUSTER_AUTHORIZATION_FAILED"),
            ("Fetch", "FETCH_SESSION_TOPIC_ID_ERROR"),
        }
        & every
    )
