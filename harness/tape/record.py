"""From the frames that a client saw to a tape: a trial with its disturbance and without, on a cluster of one broker.

What a healthy peer answers is the last good answer of each API without the disturbance. What was disturbed is kept with
the number of its request, and so is each other answer that says an error. A disturbance until healing is one frame that
lasts as long. Then these are cut down (delta debugging, Zeller and Hildebrandt, 2002): what need not be there for the
client to show the same is left out. Pure, but for `cut`, which is given how to play. Shown by
tests/harness/test_harness_tape_record.py.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from chaos.toxiproxy.kafka.apis import API_KEYS
from chaos.toxiproxy.kafka.fields import MalformedFrame
from chaos.toxiproxy.kafka.messages import decode_response
from harness.explore.oracles.oracles import Suspicion
from harness.explore.trial.model import Do as MoveDo
from harness.explore.trial.model import How, Role, Trial
from harness.tape.fields import Plain, error_codes, renamed, to_plain
from harness.tape.healthy_answers import REWRITTEN
from harness.tape.model import NAME, Do, Frame, Tape
from runlog.records.exchange import ExchangeOutcome, KafkaExchange

SCRIPTED_MAX: Final = 400  # answers that are cut down; a disturbance until healing meets at most some hundred requests
CUTS_MAX: Final = 24  # plays to cut a tape down
# A refusal that took so long is as late in the tape. A broker waits before it says that there were too few replicas,
# and what the client does meanwhile may be the bug.
SLOW_MS: Final = 50
ROUNDS: Final = 3  # through what was recorded, until something shows it
SHIFT_MAX: Final = 4  # requests before and after the one that was disturbed
# A peer does nothing by itself, and has no second topic.
_NOT_CARRIED: Final = frozenset({MoveDo.COPY, MoveDo.SEND_OFFSETS, MoveDo.RUN, MoveDo.COMPACT})
_NEVER_READ: Final = (ExchangeOutcome.DROPPED, ExchangeOutcome.UNANSWERED)


class NotTaped(Exception):
    """There can be no tape of this. The text says why."""


def check(trial: Trial) -> None:
    """NotTaped for a trial that the scripted peer cannot carry."""
    program = trial.program
    if trial.then is not None:
        raise NotTaped(
            "a tape has one disturbance: the second one follows within milliseconds, and a tape only knows the number "
            "of a request"
        )
    if program.role is Role.COPIER:
        raise NotTaped("a tape has no copies from topic to topic: the scripted peer has one topic")
    if program.topics > 1:
        raise NotTaped("a tape has one topic")
    if program.properties.get("group.protocol") == "consumer":
        raise NotTaped("a tape has no group of the brokers' protocol (KIP-848): the scripted peer does not speak it")
    other = next((move for move in program.moves if move.do.is_of_cluster or move.do in _NOT_CARRIED), None)
    if other is not None:
        raise NotTaped(f"the brokers of a tape do nothing by themselves: it cannot carry {other}")


def tape_of(
    trial: Trial,
    shown: Suspicion,
    disturbed: Sequence[KafkaExchange],
    quiet: Sequence[KafkaExchange],
    *,
    client: str,
    names: Sequence[str],
) -> Tape:
    """`disturbed` and `quiet`: with their frames, in the order of the requests. `names`: of the topics of both runs,
    which the tape calls by its own name. A trial without a disturbance becomes a tape without a fault. NotTaped if a
    frame is missing."""
    check(trial)
    is_quiet = trial.disturbance is None
    as_ours = dict.fromkeys(sorted(names, key=len, reverse=True), NAME)
    as_ours |= _same_topic(quiet, disturbed, as_ours)
    frames = _healthy(quiet, disturbed, as_ours)
    return Tape(
        client=client,
        kind=shown.kind,
        what=shown.what,
        trial=trial,
        frames=(*frames, *(() if is_quiet else _scripted(trial, disturbed, as_ours))),
    )


def _same_topic(
    quiet: Sequence[KafkaExchange], disturbed: Sequence[KafkaExchange], names: dict[str, str]
) -> dict[str, str]:
    """Each run had a topic with an id of its own. The tape has one: the first that a healthy answer names."""
    ids = [
        topic["topic_id"]
        for exchange in (*quiet, *disturbed)
        if exchange.api == "Metadata" and (plain := _message(exchange, names)) is not None
        for topic in plain.get("topics", ())
        if topic.get("name") == NAME and topic.get("topic_id")
    ]
    return dict.fromkeys(ids, ids[0]) if ids else {}


def _healthy(quiet: Sequence[KafkaExchange], disturbed: Sequence[KafkaExchange], names: dict[str, str]) -> list[Frame]:
    """One answer for each API: the last good one of the quiet run, or else of the disturbed one."""
    found: dict[str, Frame] = {}
    for exchange in (*disturbed, *quiet):
        if exchange.toxics or exchange.api not in API_KEYS:
            continue
        plain = _message(exchange, names)
        if plain is None or any(error_codes(plain)):
            continue
        kept = {name: value for name, value in plain.items() if name not in REWRITTEN.get(exchange.api, ())}
        found[exchange.api] = Frame(api=exchange.api, version=exchange.api_version, message=kept)
    order = list(dict.fromkeys(each.api for each in (*quiet, *disturbed)))
    return sorted(found.values(), key=lambda frame: order.index(frame.api))


def _scripted(trial: Trial, disturbed: Sequence[KafkaExchange], names: dict[str, str]) -> list[Frame]:
    asked: Counter[str] = Counter()
    found: list[Frame] = []
    for exchange in disturbed:
        if exchange.api not in API_KEYS:
            continue
        asked[exchange.api] += 1
        frame = _frame(trial, exchange, names, asked[exchange.api])
        if frame is None or (exchange.toxics and any(one.lasting_ms for one in found)):
            continue
        found.append(frame)
    if len(found) > SCRIPTED_MAX:
        raise NotTaped(f"{len(found)} answers were no healthy ones, at most {SCRIPTED_MAX} are cut down")
    return found


def _frame(trial: Trial, exchange: KafkaExchange, names: dict[str, str], number: int) -> Frame | None:
    """None for what a healthy peer answers too."""
    base = Frame(api=exchange.api, version=exchange.api_version, request=number, is_after_work=exchange.is_forwarded)
    if not exchange.toxics:
        plain = _message(exchange, names)
        if plain is None or not any(error_codes(plain)):
            return None
        return replace(base, message=plain, is_after_work=False)  # a broker's own error: it has done nothing
    disturbance = trial.disturbance
    assert disturbance is not None, "only a disturbance has toxics"
    how = disturbance.how
    base = replace(base, lasting_ms=0 if disturbance.count else disturbance.heal_after_ms)
    if how.is_error:
        took_ms = (exchange.ended_ns - exchange.mono_ns) // 1_000_000
        late_ms = took_ms if took_ms >= SLOW_MS else 0
        return replace(base, do=Do.ERROR, code=disturbance.code, is_after_work=how.is_after_work, late_ms=late_ms)
    if how is How.LATE:
        return replace(base, do=Do.LATE, late_ms=disturbance.late_ms)
    if how in (How.SILENCE_BEFORE, How.SILENCE_AFTER):  # also where the client has read the answer that came at last
        return replace(base, do=Do.SILENCE, late_ms=disturbance.heal_after_ms, is_after_work=how.is_after_work)
    if exchange.outcome in _NEVER_READ:
        return replace(base, do=Do.CLOSE)
    plain = _message(exchange, names)
    if plain is None:
        raise NotTaped(f"the answer to request {number} of {exchange.api} is not in the log")
    return replace(base, message=plain)


def _message(exchange: KafkaExchange, names: dict[str, str]) -> Plain | None:
    """None if the client read no answer, or one that is too long for the log."""
    if exchange.response is None or exchange.outcome in _NEVER_READ:
        return None
    frame = base64.b64decode(exchange.response)
    try:
        _, message = decode_response(frame, API_KEYS[exchange.api], exchange.api_version)
    except MalformedFrame:
        return None
    plain: Plain = renamed(to_plain(message), names)
    return _without_records(exchange.api, plain)


def _without_records(api: str, plain: Plain) -> Plain:
    """Records of a Fetch come from the tape's topic."""
    for topic in plain.get("responses", []) if api == "Fetch" else []:
        for part in topic.get("partitions", []):
            part.pop("records", None)
    return plain


def cut(tape: Tape, shows: Callable[[Tape], bool], *, cuts_max: int = CUTS_MAX) -> Tape:
    """The tape with fewer frames for certain requests, as long as `shows` it. First only what was disturbed, then in
    halves, quarters and so on. Healthy answers stay: they are what a client may ask for, one of each API.

    A bug may be a race, so what was recorded is tried several times. A peer is faster than a cluster, so a client may
    ask it for something else at the same request. If the tape does not show it, what was disturbed is tried at other
    requests. The tape itself, if that does not show it either."""
    cutting = _Cutting(tape, shows, cuts_max)
    scripted = [frame for frame in tape.frames if frame.is_script]
    if not scripted:
        return tape
    api = tape.trial.disturbance.api if tape.trial.disturbance else ""
    of_api = [frame for frame in scripted if frame.api == api]
    recorded: list[list[Frame]] = []
    for some in (of_api[:1], of_api, scripted):
        if some and some not in recorded:
            recorded.append(some)
    found = next((some for some in recorded * ROUNDS if cutting.still(some)), None)
    if found is None and of_api:
        others = ([replace(of_api[0], request=number)] for number in _near(of_api[0].request))
        found = next((some for some in others if cutting.still(some)), None)
    return tape if found is None else cutting.with_only(_fewer(found, cutting))


class _Cutting:
    """`still`: whether the tape with only these special answers shows the same, as long as plays are left."""

    def __init__(self, tape: Tape, shows: Callable[[Tape], bool], cuts_max: int) -> None:
        self._tape, self._shows, self._left = tape, shows, cuts_max
        self._healthy = [frame for frame in tape.frames if not frame.is_script]

    def with_only(self, scripted: Sequence[Frame]) -> Tape:
        return replace(self._tape, frames=(*self._healthy, *scripted))

    def still(self, scripted: Sequence[Frame]) -> bool:
        if self._left <= 0:
            return False
        self._left -= 1
        return self._shows(self.with_only(scripted))


def _near(request: int) -> list[int]:
    """Other requests of the API, those beside it first."""
    beside = [request + sign * step for step in range(1, SHIFT_MAX + 1) for sign in (-1, 1)]
    return [number for number in beside if number >= 1]


def _fewer(scripted: list[Frame], cutting: _Cutting) -> list[Frame]:
    left = scripted
    length = len(left) // 2
    while length >= 1 and len(left) > 1:
        start = 0
        while start < len(left) and len(left) > 1:
            fewer = [*left[:start], *left[start + length :]]
            if fewer and cutting.still(fewer):
                left = fewer
            else:
                start += length
        length //= 2
    return left
