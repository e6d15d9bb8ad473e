"""Which anomalies of a history are lawful under its terms, case by case, with the reason and its source.

What concerns single records has the rules of reports/judge/lawful.py, which the verdict of a run applies too. Here are
the rules of transactions. Kafka promises less than the word says: it never isolates writes, and a poll is no snapshot.
Jepsen's checker allows G0, and G1c with ww edges, for the same reason (`allowed-error-types` in jepsen.tests.kafka).

The first rule whose condition is true counts. Pure. Shown by tests/reports/test_reports_jepsen_lawful.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from reports.jepsen.anomalies import Case
from reports.jepsen.cycles import WW
from reports.jepsen.terms import Terms
from reports.judge import lawful
from reports.judge.lawful import LAWFUL, UNLAWFUL, Ruling


@dataclass(frozen=True, slots=True)
class Condition:
    """`text` completes "if ..." on the page."""

    text: str
    holds: Callable[[Case, Terms], bool]


@dataclass(frozen=True, slots=True)
class Clause:
    """`ruling`: what holds, or the name of an anomaly of reports/judge/lawful.py whose rules hold."""

    condition: Condition
    ruling: Ruling | str


ALWAYS: Final = Condition("", lambda case, terms: True)
_UNCOMMITTED: Final = Condition(
    "readers have isolation.level=read_uncommitted", lambda case, terms: terms.reads_uncommitted
)
_UNPROVED: Final = Condition(
    "readers have isolation.level=read_uncommitted, and the operation did not end :ok",
    lambda case, terms: terms.reads_uncommitted and not case.is_acked,
)
_OLD_EPOCH: Final = Condition("transaction.version is 0 or 1", lambda case, terms: terms.transaction_version < 2)
_OLD_TRANSACTION: Final = Condition(
    "transaction.version is 0 or 1, and a transaction wrote it",
    lambda case, terms: terms.transaction_version < 2 and case.is_transaction,
)
_OF_TRANSACTION: Final = Condition("a transaction wrote it", lambda case, terms: case.is_transaction)
_WITH_WW: Final = Condition("the cycle needs an edge ww", lambda case, terms: WW in case.edges)


def _clause(condition: Condition, verdict: str, reason: str, source: str) -> Clause:
    return Clause(condition, Ruling(lawful=verdict, reason=reason, source=source))


_LATE = (
    "a producer keeps its epoch from one transaction to the next, so a request that comes late takes effect in the "
    "next transaction: a record or an end of one counts for the other",
    "KIP-890; KAFKA-14402; KAFKA-17754",
)
_INTERLEAVES = _clause(
    ALWAYS,
    LAWFUL,
    "Kafka does not isolate writes: records of open transactions stand between one another in a partition",
    "KIP-98; jepsen.tests.kafka, allowed-error-types",
)
_SEES_ALL = _clause(
    _UNCOMMITTED, LAWFUL, "such readers get records as they are appended, whatever becomes of the transaction", "KIP-98"
)
_ENDS_AT_LSO = _clause(
    ALWAYS, UNLAWFUL, "read_committed ends at the last stable offset and leaves out what was aborted", "KIP-98"
)

RULINGS: Final[dict[str, tuple[Clause, ...]]] = {
    "lost-write": (
        _clause(
            _UNPROVED,
            LAWFUL,
            "such readers get records of transactions that are aborted later, so a read of one value does not prove "
            "that the others had to be there",
            "KIP-98",
        ),
        _clause(_OLD_TRANSACTION, LAWFUL, *_LATE),
        Clause(ALWAYS, "lost"),
    ),
    "duplicate": (
        _clause(
            _OF_TRANSACTION,
            UNLAWFUL,
            "a transactional producer is idempotent: the broker recognises a repeated sequence and appends it once",
            "KIP-98",
        ),
        Clause(ALWAYS, "duplicated"),
    ),
    "inconsistent-offsets": (Clause(ALWAYS, "offset_reused"),),
    "G1a": (
        _SEES_ALL,
        _clause(_OLD_TRANSACTION, LAWFUL, *_LATE),
        _clause(_OF_TRANSACTION, UNLAWFUL, "read_committed leaves out what was aborted", "KIP-98"),
        Clause(ALWAYS, "phantom"),
    ),
    "unexpected-read": (Clause(ALWAYS, "unexpected"),),
    "precommitted-read": (_SEES_ALL, _clause(_OLD_EPOCH, LAWFUL, *_LATE), _ENDS_AT_LSO),
    "torn-txn": (
        _clause(
            _UNPROVED,
            LAWFUL,
            "such readers get what was appended of a transaction before it was aborted; the rest was never appended",
            "KIP-98",
        ),
        _clause(_OLD_TRANSACTION, LAWFUL, *_LATE),
        _clause(_OF_TRANSACTION, UNLAWFUL, "a transaction is committed in all its partitions or in none", "KIP-98"),
        _clause(
            Condition("the operation did not end :ok", lambda case, terms: not case.is_acked),
            LAWFUL,
            "without a transaction each record has a fate of its own",
            "protocol",
        ),
        Clause(ALWAYS, "lost"),
    ),
    "G1b": (
        _clause(
            ALWAYS,
            LAWFUL,
            "a poll is no snapshot: it ends where max.poll.records or a size limit says, also in the middle of a "
            "transaction, and the next one goes on there",
            "max.poll.records; fetch.max.bytes; jepsen.tests.kafka, Analysis 7",
        ),
    ),
    "unseen": (Clause(ALWAYS, "unseen_pending"),),
    "poll-skip": (Clause(ALWAYS, "poll_skip"),),
    "nonmonotonic-poll": (Clause(ALWAYS, "nonmonotonic_poll"),),
    "int-poll-skip": (Clause(ALWAYS, "poll_skip"),),
    "int-nonmonotonic-poll": (Clause(ALWAYS, "nonmonotonic_poll"),),
    "nonmonotonic-send": (Clause(ALWAYS, "send_realtime_violation"),),
    "int-nonmonotonic-send": (
        _clause(
            _OF_TRANSACTION, UNLAWFUL, "a transactional producer is idempotent, and idempotence keeps order", "KIP-98"
        ),
        Clause(ALWAYS, "reordered"),
    ),
    "int-send-skip": (_INTERLEAVES,),
    "G0": (_INTERLEAVES,),
    "G1c": (
        replace(_INTERLEAVES, condition=_WITH_WW),
        _SEES_ALL,
        _clause(_OLD_EPOCH, LAWFUL, *_LATE),
        _clause(
            ALWAYS,
            UNLAWFUL,
            "a read_committed reader gets what is decided only, so of two transactions that read one another each "
            "would have been decided before the other",
            "KIP-98; last stable offset",
        ),
    ),
}


def ruling_of(case: Case, terms: Terms) -> Ruling:
    ruling = next(clause.ruling for clause in RULINGS[case.anomaly] if clause.condition.holds(case, terms))
    if isinstance(ruling, Ruling):
        return ruling
    is_group = case.is_subscribed and not case.anomaly.startswith("int-")
    return lawful.rule(ruling, replace(terms.configuration, subscribes=is_group))
