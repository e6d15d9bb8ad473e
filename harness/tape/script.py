"""Which answer a request of a client gets from the scripted peer. No sockets and no clock: requests in, answers out.

A frame of the tape that is meant for the n-th request of its API is sent as it was recorded, with the request's
correlation id; one that says an error is made from the request, as a broker refuses it. All other requests get the
frame that the tape has for that API, and in it what depends on the request is written anew (healthy_answers.py). Shown
by tests/harness/test_harness_tape_script.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final  # a request is kio's, of a type that is chosen at run time

from chaos.toxiproxy.kafka.apis import API_KEYS
from chaos.toxiproxy.kafka.edits import NothingChanged, Target, with_error
from chaos.toxiproxy.kafka.messages import wire
from chaos.toxiproxy.kafka.possible import is_possible
from chaos.toxiproxy.kafka.refusals import refused
from harness.tape.fields import Plain, from_plain, to_plain
from harness.tape.healthy_answers import NEED_NO_FRAME, RULES, with_address
from harness.tape.model import Do, Frame, Tape
from harness.tape.state import Address, Later, State, state_of

JOIN_WAITS_MS: Final = 300_000  # A group's own time-outs end a join; this only bounds the peer's thread.
# Its refusal, made from the request, would say that the cluster has no brokers.
_WITHOUT_WORK: Final = frozenset({"Metadata"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`message` is None where nothing is sent. A silence ends after `late_ms`, if that is not 0. With `waits_ms` it may
    be asked for again until then, with `later` if there is one, and else with the same request: a Fetch that found
    nothing, a join that others are waited for in."""

    do: Do
    message: Plain | None = None
    late_ms: int = 0
    waits_ms: int = 0
    later: Later | None = None


def nodes_of(tape: Tape) -> tuple[int, ...]:
    """The numbers of its brokers, as its healthy answer to Metadata has them; at least one."""
    healthy = next((each.message for each in tape.frames if each.api == "Metadata" and not each.is_script), {})
    return tuple(each["node_id"] for each in healthy.get("brokers", ())) or (0,)


class Script:
    """The state of one peer. `missing` names what a client asked for and the tape has no answer to."""

    def __init__(self, tape: Tape, addresses: Mapping[int, Address]) -> None:
        self.state: State = state_of(tape, addresses)
        self.missing: Counter[str] = Counter()
        self.met = 0  # requests that got a frame of their own
        self._healthy = {frame.api: frame for frame in tape.frames if not frame.is_script}
        self._waiting = [frame for frame in tape.frames if frame.is_script]
        self._lasting: dict[str, tuple[Frame, int]] = {}  # API -> the frame that each request gets until that time
        self._healed_ms = 0  # when all that lasts is over
        self._asked: Counter[str] = Counter()

    def is_spent(self, now_ms: int) -> bool:
        """Nothing but healthy answers from here on."""
        return not self._waiting and not self.is_disturbing(now_ms)

    def is_disturbing(self, now_ms: int) -> bool:
        """Whether a frame that lasts does so now."""
        return self.lasts_ms(now_ms) > 0

    def lasts_ms(self, now_ms: int) -> int:
        """How long a frame that lasts does so from now on."""
        return max(0, self._healed_ms - now_ms)

    def version_max(self, api: str) -> int | None:
        """The newest version that the peer speaks of this API: the one that was recorded. None if it has none."""
        return self.state.newest.get(api)

    def take(self, api: str, request: Any = None, now_ms: int = 0) -> Frame | None:
        """The frame for the next request of this API; None if the tape has none. Each request takes one, once. An error
        that no broker could give to this request waits for one that it fits."""
        self._asked[api] += 1
        own = next((one for one in self._waiting if one.api == api and self._is_due(one, request)), None)
        if own is not None:
            self._waiting.remove(own)
            self.met += 1
            if own.lasting_ms:
                self._lasting[api] = (own, now_ms + own.lasting_ms)
            silent_ms = own.late_ms if own.do is Do.SILENCE else 0
            self._healed_ms = max(self._healed_ms, now_ms + max(own.lasting_ms, silent_ms))
            return own
        lasting, until_ms = self._lasting.get(api, (None, 0))
        if lasting is not None and now_ms < until_ms and _fits(lasting, request):
            self.met += 1
            return lasting
        found = self._healthy.get(api)
        if found is None and api in NEED_NO_FRAME:
            return Frame(api=api, version=0)
        if found is None:
            self.missing[api] += 1
        return found

    def _is_due(self, frame: Frame, request: Any) -> bool:
        asked = self._asked[frame.api]
        if frame.do is Do.ERROR:
            return asked >= frame.request and _fits(frame, request)
        return asked == frame.request

    def answer(self, frame: Frame, request: Any, now_ms: int = 0) -> Answer:
        """What a request gets. For a Fetch without records it may be called again with the same frame."""
        self.state.now_ms = now_ms
        if not frame.is_script:
            return self._healthy_answer(frame, request)
        worked = Answer(do=Do.ANSWER, message={})
        if frame.is_after_work or frame.do is Do.LATE:
            worked = self._healthy_answer(self.healthy(frame), request)
        match frame.do:
            case Do.ANSWER:
                return Answer(do=Do.ANSWER, message=with_address(dict(frame.message), self.state.addresses))
            case Do.LATE:
                return replace(worked, do=Do.LATE, late_ms=frame.late_ms)
            case Do.ERROR:
                refusal = self._error(frame, request, worked.message or {})
                return Answer(do=Do.LATE if frame.late_ms else Do.ANSWER, message=refusal, late_ms=frame.late_ms)
            case Do.SILENCE:
                message = worked.message if frame.is_after_work else None
                late_ms = self.lasts_ms(now_ms) if frame.late_ms else 0
                return Answer(do=Do.SILENCE, message=message, late_ms=late_ms)
            case Do.CLOSE:
                return Answer(do=Do.CLOSE)

    def healthy(self, frame: Frame) -> Frame:
        """What a request gets in the place of this frame when it is healed."""
        return self._healthy.get(frame.api) or replace(frame, message={}, request=0, do=Do.ANSWER)

    def _healthy_answer(self, frame: Frame, request: Any) -> Answer:
        rule = RULES.get(frame.api)
        message = dict(frame.message) if rule is None else rule(self.state, request, frame.message)
        if isinstance(message, Later):
            found = message.ask(self.state.now_ms)
            if found is None:
                return Answer(do=Do.ANSWER, waits_ms=JOIN_WAITS_MS, later=message)
            message = found
        return Answer(do=Do.ANSWER, message=message, waits_ms=_wait_ms(frame.api, request, message))

    def _error(self, frame: Frame, request: Any, worked: Plain) -> Plain:
        """As a broker says it: without its work from the request alone, and after it in the answer that there was."""
        key, version = API_KEYS[frame.api], int(request.__version__)
        if not frame.is_after_work and frame.api not in _WITHOUT_WORK:
            message = refused(key, version, request, frame.code)
        else:
            if frame.api in _WITHOUT_WORK and frame.api in self._healthy:
                worked = self._healthy_answer(self._healthy[frame.api], request).message or {}
            whole = from_plain(wire().response_type(key, version), worked)
            try:
                message = with_error(whole, key, version, frame.code, Target(), {})
            except NothingChanged:
                message = whole
        return {} if message is None else to_plain(message)


def _fits(frame: Frame, request: Any) -> bool:
    """Whether a broker could say this error to this request."""
    return frame.do is not Do.ERROR or request is None or is_possible(API_KEYS[frame.api], frame.code, request)


def _wait_ms(api: str, request: Any, message: Plain) -> int:
    if api != "Fetch":
        return 0
    has_news = any(
        part.get("records") or part.get("error_code") for topic in message["responses"] for part in topic["partitions"]
    )
    return 0 if has_news else round(request.max_wait.total_seconds() * 1_000)
