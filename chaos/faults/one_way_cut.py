"""one_way_cut: bytes from the left brokers to the right ones stop, whoever opened the connection. The other direction
works.

The bytes of one direction are the requests on connections that the left side opens, and the responses on those that the
right side opens. Nothing is lost. After healing the bytes continue, as if TCP sent them again after a lost route came
back. Proved on the links of both kinds: a request gets no answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, HostPermit, Parameter, Proof
from chaos.faults.toxics import LinkToxics, prove_silent
from chaos.targets import check_joint, other_way

_STALL = {"rate": 0}


class OneWayCut:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._toxics = LinkToxics(
            door=context.port.links.plain, lease=context.lease, name=context.toxic_name, type="bandwidth"
        )
        existing = set(context.port.links.names())
        back = (other_way(link) for link in context.links)
        self._back = tuple(link for link in back if link is not None and link in existing)
        check_joint(self._back, context.port.links.joint_links())

    def inject(self) -> None:
        self._toxics.add(self._context.links, ("upstream",), _STALL)
        self._toxics.add(self._back, ("downstream",), _STALL)

    def heal(self) -> None:
        self._toxics.remove()

    def prove(self) -> Proof:
        stopped = {"requests_stopped_on": list(self._context.links), "answers_stopped_on": list(self._back)}
        return prove_silent(self._context, (*self._context.links, *self._back), stopped)


SPEC = FaultSpec(
    name="one_way_cut",
    label="cut one way",
    colour="#a93226",
    target_kind="link",
    default_target="followers->leader",
    make=OneWayCut,
    parameters={},
    host_permit=HostPermit(word="stall", toxic="bandwidth", attributes=_STALL, acts_on_way_back=True),
)
