"""From the frames that a client saw to a tape: a trial with its disturbance and without, on a cluster of one broker.

What a healthy peer answers is the last good answer of each API without the disturbance. What was disturbed is kept with
the number of its request, and so is each other answer that says an error. Then these are cut down (delta debugging,
Zeller and Hildebrandt, 2002): what need not be there for the client to show the same is left out. Pure, but for `cut`,
which is given how to play. Shown by tests/harness/test_harness_tape_record.py.
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
from harness.explore.trial.model import How, Trial
from harness.tape.fields import Plain, error_codes, renamed, to_plain
from harness.tape.model import NAME, Do, Frame, Tape
from harness.tape.script import REWRITTEN
from runlog.records.exchange import ExchangeOutcome, KafkaExchange

SCRIPTED_MAX: Final = 400  # answers that are cut down; a disturbance until healing meets at most some hundred requests
CUTS_MAX: Final = 24  # plays to cut a tape down
_CARRIED: Final = frozenset(
    {
        MoveDo.SEND,
        MoveDo.FLUSH,
        MoveDo.SUBSCRIBE,
        MoveDo.ASSIGN,
        MoveDo.POLL,
        MoveDo.GLANCE,
        MoveDo.READ,
        MoveDo.READ_SHORT,
        MoveDo.WORK,
        MoveDo.COMMIT,
        MoveDo.SEEK,
        MoveDo.PAUSE,
        MoveDo.RESUME,
        MoveDo.ARRIVE,
        MoveDo.WAIT,
        MoveDo.CLOSE,
        MoveDo.RESTART,
        MoveDo.KILL,
    }
)
_NEVER_READ: Final = (ExchangeOutcome.DROPPED, ExchangeOutcome.UNANSWERED)


class NotTaped(Exception):
    """There can be no tape of this. The text says why."""


def check(trial: Trial) -> None:
    """NotTaped for a trial that the scripted peer cannot carry."""
    if trial.program.is_transactional or any(move.do is MoveDo.SEND_OFFSETS for move in trial.program.moves):
        raise NotTaped("a tape has no transactions: the scripted peer keeps no state of them")
    other = next((move for move in trial.program.moves if move.do not in _CARRIED), None)
    if trial.program.members > 1:
        raise NotTaped(f"a tape has one member of a group, and the program has {trial.program.members}")
    if other is not None:
        raise NotTaped(f"a tape has one client and one broker, which does nothing by itself: it cannot carry {other}")


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
    which the tape calls by its own name. NotTaped if a frame is missing."""
    check(trial)
    as_ours = dict.fromkeys(sorted(names, key=len, reverse=True), NAME)
    frames = _healthy(quiet, disturbed, as_ours)
    return Tape(
        client=client,
        kind=shown.kind,
        what=shown.what,
        trial=trial,
        frames=(*frames, *_scripted(trial, disturbed, as_ours)),
    )


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
        if frame is not None:
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
    how = trial.disturbance.how if trial.disturbance is not None else None
    if how is How.LATE:
        return replace(base, do=Do.LATE, late_ms=trial.disturbance.late_ms if trial.disturbance else 0)
    if exchange.outcome in _NEVER_READ:
        is_silent = how in (How.SILENCE_BEFORE, How.SILENCE_AFTER)
        return replace(base, do=Do.SILENCE if is_silent else Do.CLOSE)
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
    halves, quarters and so on. Healthy answers stay: they are what a client may ask for, one of each API."""
    tries = 0

    def still(scripted: Sequence[Frame]) -> bool:
        nonlocal tries
        tries += 1
        return tries <= cuts_max and shows(replace(tape, frames=(*healthy, *scripted)))

    healthy = [frame for frame in tape.frames if not frame.is_script]
    left = [frame for frame in tape.frames if frame.is_script]
    api = tape.trial.disturbance.api if tape.trial.disturbance else ""
    of_api = [frame for frame in left if frame.api == api]
    for fewer in (of_api[:1], of_api):
        if 0 < len(fewer) < len(left) and still(fewer):
            left = fewer
            break
    length = len(left) // 2
    while length >= 1 and len(left) > 1:
        start = 0
        while start < len(left) and len(left) > 1:
            fewer = [*left[:start], *left[start + length :]]
            if fewer and still(fewer):
                left = fewer
            else:
                start += length
        length //= 2
    return replace(tape, frames=(*healthy, *left))
