"""A client process as a producer whose records are sent inside of transactions.

What ends a transaction is the program's answer, and `next` of an error says what its library wants. A transaction whose
commit was answered by an error is aborted only if the library asked for an abort, and that succeeded. Any other such
end is unknown. Shown by tests/workloads/test_workloads_process_transactions.py.
"""

from __future__ import annotations

import time
from typing import Final

from workloads.clients.process.build import Built
from workloads.clients.process.load import ProcessProducer
from workloads.clients.process.messages import Ability, ErrorEvent, Ready
from workloads.clients.process.peer import PeerLost
from workloads.clients.protocol import (
    CONNECT_TIMEOUT_S,
    ClientError,
    ClientSetup,
    OutcomeSink,
    TransactionAborted,
    TransactionUnknown,
)

TRANSACTIONAL_ID: Final = "transactional.id"
_STEP_S_MIN: Final = 1.0  # for the end of a transaction whose records took all of its time
_AGAIN_S: Final = 0.05  # before a step that may be repeated


def lacks_transactions(ready: Ready) -> str:
    """What the program does not declare and transactions need. Empty if nothing."""
    word = Ability.TRANSACTIONS
    if not ready.is_able(word):
        return f"the program does not declare `{word}`" + (f": {ready.lacks[word]}" if word in ready.lacks else "")
    if not ready.is_able(Ability.PRODUCE) or not ready.takes("producer", TRANSACTIONAL_ID):
        return f"the program declares `{word}`, and no producer with {TRANSACTIONAL_ID}"
    return ""


class ProcessTransactionalProducer(ProcessProducer):
    """What an earlier one left open is ended as soon as the library asks for its epoch: by `connect`, by `begin`
    (kafkajs) or by the first record (franz-go)."""

    def __init__(self, name: str, built: Built, setup: ClientSetup, sink: OutcomeSink) -> None:
        assert setup.transactional_id is not None
        super().__init__(name, built, setup, sink)
        if problem := lacks_transactions(self._ready):
            self._peer.kill()
            raise ClientError(f"client {name} sends no load in transactions: {problem}")
        self._properties[TRANSACTIONAL_ID] = setup.transactional_id

    def begin(self) -> None:
        error = self._step("begin", CONNECT_TIMEOUT_S)
        if error is not None:
            raise TransactionUnknown(error.reason, error.code)

    def commit(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        # With it all outcomes are told. If it fails, nobody has asked for a commit yet.
        error = self._step("flush", timeout_s)
        if error is None:
            error = self._end("commit-transaction", deadline_s)
            if error is None:
                return
            if error.next != "abort":
                raise TransactionUnknown(error.reason, error.code)
        self._abort(timeout_s)
        raise TransactionAborted(error.reason, error.code)

    def abort(self, timeout_s: float) -> None:
        self._step("flush", timeout_s)  # what is wrong shows when it is aborted
        self._abort(timeout_s)

    def _abort(self, timeout_s: float) -> None:
        error = self._end("abort-transaction", time.monotonic() + timeout_s)
        if error is not None:
            raise TransactionUnknown(error.reason, error.code)

    def _end(self, do: str, deadline_s: float) -> ErrorEvent | None:
        """Again as long as the library says that this is right, and there is time."""
        while True:
            error = self._step(do, max(_STEP_S_MIN, deadline_s - time.monotonic()))
            if error is None or error.next != "retry" or time.monotonic() >= deadline_s:
                return error
            self.poll(_AGAIN_S)

    def _step(self, do: str, timeout_s: float) -> ErrorEvent | None:
        """None if it is done. ClientError if the program is gone or has broken the protocol: then nobody knows whether
        it was done. What the program said of records before its answer has been told."""
        try:
            self._hand_over()
            event = self._peer.call(do, timeout_s=timeout_s)
        except PeerLost as error:
            raise ClientError(str(error)) from error
        finally:
            self._tell()
        self._check_mistakes()
        return event if isinstance(event, ErrorEvent) else None
