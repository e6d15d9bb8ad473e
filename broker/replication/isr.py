"""The leader's proposals for its ISR, one at a time (AlterPartition, KIP-497).

While a proposal is open, its members count for the high watermark in addition to the committed ISR, because the
controller may have agreed already. It stays open after the controller agreed, until the metadata log tells the change.
Before it, the log tells everything that the controller knew when it agreed, such as a raised min.insync.replicas. By
that the controller counted who may lead without being in the ISR (KIP-966). In Apache Kafka the answer alone ends a
proposal.

States and triggers are in `broker.replication.transitions`. Knows neither followers nor offsets.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker.replication.transitions import ISR_TRANSITIONS, IsrState, IsrTrigger

_AGREED = int(ErrorCode.none)
# With these errors the proposal is void. The committed ISR stands, and a later fetch or tick may propose again.
_REVERTING_ERRORS = frozenset({ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica})


class IsrProposal:
    def __init__(self) -> None:
        self.state = IsrState.SETTLED
        self.isr: tuple[int, ...] = ()  # what is proposed; empty while settled
        self.attempt = 0  # which of our requests the controller may answer
        self.retry_at_ms: int | None = None  # only while unanswered

    @property
    def is_open(self) -> bool:
        return self.state is not IsrState.SETTLED

    @property
    def is_agreed(self) -> bool:
        return self.state is IsrState.AGREED

    def propose(self, isr: tuple[int, ...], *, attempt: int) -> None:
        """For the first time, or again."""
        self._move(IsrTrigger.RETRY if self.is_open else IsrTrigger.PROPOSE)
        self.isr, self.attempt, self.retry_at_ms = isr, attempt, None

    def is_answered_by(self, attempt: int) -> bool:
        """Otherwise it is the answer to an earlier attempt, perhaps of a proposal that a newer image had ended. The
        later one is on its way, and the controller may already count its members in. If the maximal ISR did not
        contain these, the HW would run ahead of them."""
        return self.state is IsrState.PROPOSED and attempt == self.attempt

    def answered(self, error_code: int, *, retry_at_ms: int) -> None:
        if error_code == _AGREED:
            self._move(IsrTrigger.ACCEPTED)
        elif error_code in _REVERTING_ERRORS:
            self._settle(IsrTrigger.REFUSED)
        else:
            # The answer was lost, there is no controller, or the image will correct our state. Nobody knows whether the
            # proposal took effect. So the maximal ISR stays until an answer or a newer image comes.
            self._move(IsrTrigger.LOST)
            self.retry_at_ms = retry_at_ms

    def overtaken(self) -> None:
        """An image of a newer partition epoch came. It has what the controller agreed to, and the controller will not
        agree any more to what was proposed before it."""
        self._settle(IsrTrigger.IMAGE)

    def _settle(self, trigger: IsrTrigger) -> None:
        self._move(trigger)
        self.isr, self.retry_at_ms = (), None

    def _move(self, trigger: IsrTrigger) -> None:
        state = ISR_TRANSITIONS.get((self.state, trigger))
        assert state is not None, f"no row for an ISR that is {self.state.value}: {trigger.value}"
        self.state = state

    def check_invariants(self) -> None:
        assert self.is_open == bool(self.isr), "what is proposed has members, the leader at least"
        assert (self.retry_at_ms is not None) == (self.state is IsrState.UNANSWERED), (
            "only an unanswered one is retried"
        )
