"""What was done on a fault host, as the answer that goes over the link. Pure, but for packing.

Shown by tests/harness/test_harness_fault_hosts.py.
"""

from __future__ import annotations

import base64
import zlib

from chaos.fault_host.host import Done
from chaos.fault_host.proxies import ProbeWanted, ProxyDone, ToxicWanted
from chaos.fault_host.request_record import Piece
from chaos.link_probe import LoadProbe
from chaos.process_identity import ProcessIdentity
from workloads.hosts.fault_wire import Answer, Ask, ProbeSeen, ProcessSeen, ProxySeen, RequestsSeen, Toxic


def broker_answer(ask: Ask, done: Done) -> Answer:
    states = dict(done.processes)
    return Answer(
        number=ask.number,
        run_id=ask.run_id,
        is_done=True,
        from_ns=done.from_ns,
        to_ns=done.to_ns,
        running=None if done.running is None else _seen(done.running, states.get(done.running, "")),
        processes=tuple(_seen(identity, state) for identity, state in done.processes),
        epochs=dict(done.epochs),
    )


def toxic_wanted(toxic: Toxic | None) -> ToxicWanted | None:
    if toxic is None:
        return None
    return ToxicWanted(name=toxic.name, type=toxic.type, stream=toxic.stream, attributes=toxic.attributes)


def probe_wanted(ask: Ask) -> ProbeWanted | None:
    probe = ask.probe
    if probe is None:
        return None
    return ProbeWanted(timeout_ms=probe.timeout_ms, stream=probe.stream, size_bytes=probe.size_bytes)


def proxy_answer(ask: Ask, done: ProxyDone) -> Answer:
    state, probe = done.state, done.probe
    proxy = None if state is None else ProxySeen(
        is_enabled=state.is_enabled,
        toxics=tuple(
            Toxic.model_validate(
                {
                    "name": each.name, "type": each.type, "stream": each.stream, "attributes": each.attributes,
                    "counters": each.counters,
                }
            )
            for each in state.toxics
        ),
    )  # fmt: skip
    seen = None if probe is None else ProbeSeen(
        outcome=probe.outcome,
        elapsed_us=probe.elapsed_us,
        size_bytes=probe.size_bytes if isinstance(probe, LoadProbe) else 0,
    )  # fmt: skip
    return Answer(
        number=ask.number, run_id=ask.run_id, is_done=True, from_ns=done.from_ns, to_ns=done.to_ns, proxy=proxy,
        probe=seen,
    )  # fmt: skip


def _seen(identity: ProcessIdentity, state: str) -> ProcessSeen:
    return ProcessSeen(pid=identity.pid, start_ticks=identity.start_ticks, state=state)


def not_done(ask: Ask, problem: str, *, is_refused: bool = False, is_unknown: bool = False) -> Answer:
    return Answer(
        number=ask.number,
        run_id=ask.run_id,
        is_done=False,
        is_refused=is_refused,
        is_unknown=is_unknown,
        problem=problem[:1_900],
    )


def requests_answer(ask: Ask, piece: Piece, from_ns: int, to_ns: int) -> Answer:
    seen = RequestsSeen(
        data=base64.b64encode(zlib.compress(piece.data)).decode() if piece.data else "",
        size_bytes=piece.size_bytes,
        sha256=piece.sha256,
        problem=piece.problem[:1_900],
    )
    return Answer(number=ask.number, run_id=ask.run_id, is_done=True, from_ns=from_ns, to_ns=to_ns, requests=seen)
