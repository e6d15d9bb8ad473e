"""A tape: what a scripted peer answers, and the program of the client that is run against it. Values only.

The file is text. Its first lines are comments with the command that plays it. Then one JSON object a line: first what
it shows and the program, then one line for each frame. Shown by tests/harness/test_harness_tape_script.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from chaos.toxiproxy.kafka.apis import API_KEYS
from harness.explore.oracles.oracles import Kind
from harness.explore.trial.model import Trial, from_document, to_document

FORMAT: Final = 2  # since frames that are made from the request, or that last
FORMATS_READ: Final = (1, 2)
BYTES_MAX: Final = 64 << 10
FRAMES_MAX: Final = 50
NAME: Final = "tape"  # The topic's name and the client id. The group is "tape-group".
_READ: Final = " and ".join(map(str, FORMATS_READ))
_COMMENT: Final = "#"


class Do(StrEnum):
    """What a request gets."""

    ANSWER = "answer"
    CLOSE = "close"  # the connection ends
    # Neither it nor a later request of the connection is answered, until `late_ms` have passed; 0: never.
    SILENCE = "silence"
    LATE = "late"  # the answer comes `late_ms` later
    ERROR = "error"  # an answer with the error `code`, wherever a broker says it in an answer to this request


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """`request`: the number of the request of this API that gets it, from 1; 0: each one that has no frame of its own.
    An error waits for the first request from there on that a broker could answer so. `lasting_ms`: each request of this
    API gets it from then on, for so long. `is_after_work`: the peer has done what the request asks for, for example
    kept a commit, and does not say so."""

    api: str
    version: int
    request: int = 0
    do: Do = Do.ANSWER
    is_after_work: bool = False
    late_ms: int = 0
    code: int = 0  # with ERROR
    lasting_ms: int = 0
    message: Mapping[str, Any] = field(default_factory=dict)  # as harness.tape.fields has it; empty unless ANSWER

    @property
    def is_script(self) -> bool:
        """It stands for one certain request, and is not what a healthy peer answers."""
        return self.request > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tape:
    """`client`: name and version that it was recorded with. `kind` and `what`: what it shows with that one."""

    client: str
    kind: Kind
    what: str
    trial: Trial
    frames: tuple[Frame, ...]

    @property
    def has_fault(self) -> bool:
        """If not, the client shows it with a peer that is healthy."""
        return any(frame.is_script for frame in self.frames)

    @property
    def healthy(self) -> Tape:
        """The same peer without its fault."""
        return replace(self, frames=tuple(frame for frame in self.frames if not frame.is_script))


def to_text(tape: Tape, *, name: str, client: str, plays: str = "") -> str:
    """`name` of the file, and `client` as the command line has it: for the command that stands on top. `plays`: in how
    many it showed, in words."""
    head = {
        "tape": FORMAT,
        "client": tape.client,
        "shows": str(tape.kind),
        "what": tape.what,
        "trial": to_document(tape.trial),
    }
    lines = [
        f"# harness tape play {name} {client}",
        f"# {tape.kind}, with {tape.client}. A scripted peer of {len(tape.frames)} frames; no broker.",
        *([f"# Shown in {plays} plays."] if plays else ()),
        json.dumps(head),
        *(json.dumps(_to_line(frame)) for frame in tape.frames),
    ]
    return "\n".join(lines) + "\n"


def _to_line(frame: Frame) -> dict[str, Any]:
    line: dict[str, Any] = {"api": frame.api, "version": frame.version}
    if frame.request:
        line["request"] = frame.request
    line["do"] = str(frame.do)
    if frame.is_after_work:
        line["is_after_work"] = True
    for name in ("late_ms", "code", "lasting_ms"):
        if value := getattr(frame, name):
            line[name] = value
    if frame.message:
        line["message"] = frame.message
    return line


def from_text(text: str) -> Tape:
    """ValueError, with the line and what is wrong, for anything that is no tape."""
    if len(text) > BYTES_MAX:
        raise ValueError(f"{len(text):,} bytes, a tape has at most {BYTES_MAX:,}")
    lines = [
        (number, _object(number, line))
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith(_COMMENT)
    ]
    if not lines:
        raise ValueError("it is empty")
    (number, head), *rest = lines
    if head.get("tape") not in FORMATS_READ:
        raise ValueError(f"line {number}: tape: {head.get('tape')!r}, this version reads {_READ}")
    if len(rest) > FRAMES_MAX:
        raise ValueError(f"{len(rest)} frames, a tape has at most {FRAMES_MAX}")
    try:
        return Tape(
            client=str(head["client"]),
            kind=Kind(head["shows"]),
            what=str(head["what"]),
            trial=from_document(head["trial"]),
            frames=_frames(rest),
        )
    except KeyError as error:
        raise ValueError(f"line {number}: {error.args[0]} is missing") from error


def _object(number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number}: no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"line {number}: expected an object, got {line[:40]!r}")
    return found


def _frames(lines: Sequence[tuple[int, dict[str, Any]]]) -> tuple[Frame, ...]:
    frames: list[Frame] = []
    for number, line in lines:
        try:
            frame = Frame(**{**line, "do": Do(line["do"])})
        except KeyError as error:
            raise ValueError(f"line {number}: {error.args[0]} is missing") from error
        except (TypeError, ValueError) as error:
            raise ValueError(f"line {number}: {error}") from error
        if frame.api not in API_KEYS:
            raise ValueError(f"line {number}: there is no API {frame.api!r}")
        if any((each.api, each.request) == (frame.api, frame.request) for each in frames):
            raise ValueError(f"line {number}: a second frame for the same request of {frame.api}")
        frames.append(frame)
    return tuple(frames)
