"""The leader's proposals for its ISR, one at a time (AlterPartition, KIP-497).

While a proposal is open, its members count for the high watermark in addition to the committed ISR, because the
controller may have agreed already. In Apache Kafka the controller's answer ends a proposal. Here it stays open until
the leader reads the change in the metadata log. By then the leader has also read everything that the controller knew
when it agreed, for example a higher min.insync.replicas. The controller used that value to decide which replicas may
lead without being in the ISR (KIP-966).

States and triggers are in `broker.replication.transitions`. This module knows neither followers nor offsets.
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
        self.isr: tuple[int, ...] = ()  # the proposed ISR; empty while settled
        self.attempt = 0  # number of the request whose answer counts
        self.retry_at_ms: int | None = None  # only while unanswered

    @property
    def is_open(self) -> bool:
        return self.state is not IsrState.SETTLED

    @property
    def is_agreed(self) -> bool:
        return self.state is IsrState.AGREED

    def propose(self, isr: tuple[int, ...], *, attempt: int) -> None:
        """Propose an ISR for the first time, or send the open proposal again."""
        self._move(IsrTrigger.RETRY if self.is_open else IsrTrigger.PROPOSE)
        self.isr, self.attempt, self.retry_at_ms = isr, attempt, None

    def is_answered_by(self, attempt: int) -> bool:
        """Whether this attempt is the latest one. An answer to an earlier attempt must be ignored. That attempt may
        belong to a proposal that a newer image has ended, while a later proposal is on its way. The controller may
        already count the members of the later one. If the maximal ISR did not contain them, the high watermark (HW)
        could pass their log end offsets."""
        return self.state is IsrState.PROPOSED and attempt == self.attempt

    def answered(self, error_code: int, *, retry_at_ms: int) -> None:
        if error_code == _AGREED:
            self._move(IsrTrigger.ACCEPTED)
        elif error_code in _REVERTING_ERRORS:
            self._settle(IsrTrigger.REFUSED)
        else:
            # The answer was lost, there is no controller, or the next image will correct our state. We do not know
            # whether the proposal took effect. So the maximal ISR stays until an answer or a newer image comes.
            self._move(IsrTrigger.LOST)
            self.retry_at_ms = retry_at_ms

    def overtaken(self) -> None:
        """An image with a newer partition epoch came. It contains what the controller agreed to. The controller refuses
        proposals that were made before it."""
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
