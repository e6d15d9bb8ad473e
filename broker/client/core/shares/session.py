"""The session of a share consumer with one broker: its epoch, what it reads, and the acknowledgements for this broker.

A broker keeps the records that a member has acquired as long as the member's session lives. If the session is lost
(the connection broke, or the broker does not know it), the broker offers these records again. Then acknowledgements of
them have no place to go.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.client.core.shares.values import EPOCH_MAX, FIRST_EPOCH, AcknowledgeType, Acks, Place, ShareRequest


@dataclass(slots=True, kw_only=True, eq=False)
class ShareSession:
    """Invariant: an acknowledgement is in `outbox` or in `in_flight`, never in both. A lost session has neither."""

    node: int
    epoch: int = FIRST_EPOCH  # Its next request has this epoch.
    is_lost: bool = False
    places: frozenset[Place] = frozenset()  # what the broker reads for this session
    outbox: dict[Place, dict[int, AcknowledgeType]] = field(default_factory=dict)
    in_flight: ShareRequest | None = None
    held: int = 0  # records of this session that the application has, or that wait for it

    def put(self, place: Place, offset: int, kind: AcknowledgeType) -> None:
        self.outbox.setdefault(place, {})[offset] = kind

    def waiting(self) -> Acks:
        """A copy of what waits for the next request."""
        return {place: dict(types) for place, types in self.outbox.items()}

    def sent(self, request: ShareRequest) -> None:
        """Takes what is in the request out of the outbox."""
        assert self.in_flight is None, f"broker {self.node}: two requests at once"
        assert not request.acks or self.epoch != FIRST_EPOCH, "the first request of a session acknowledges nothing"
        if request.acks:
            self.outbox = {}
        self.in_flight = request
        self.places = (self.places | request.added) - request.forgotten

    def answered(self) -> ShareRequest:
        request, self.in_flight = self.in_flight, None
        assert request is not None, f"broker {self.node}: an answer without a request"
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        return request

    def end(self) -> tuple[Acks, Acks]:
        """The session is lost. Returns the acknowledgements in flight, and those that were not sent."""
        sent: Acks = {} if self.in_flight is None else self.in_flight.acks
        waiting = self.waiting()
        self.in_flight, self.outbox, self.is_lost = None, {}, True
        return sent, waiting

    def check_invariants(self) -> None:
        assert self.held >= 0
        assert not self.is_lost or not (self.outbox or self.in_flight)
        sent = self.in_flight.acks if self.in_flight is not None else {}
        for place, types in self.outbox.items():
            assert not set(types) & set(sent.get(place, ())), f"{place}: acknowledged twice"
