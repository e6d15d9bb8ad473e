"""Operations of a history in the shape of Jepsen's Kafka workload, and how they stand in EDN.

The shape is that of `jepsen.tests.kafka` (github.com/jepsen-io/jepsen,
jepsen/src/jepsen/tests/kafka.clj, its docstring):

    {:index 1, :time 15000000, :type :ok, :process 0, :f :send, :value [[:send 0 [17 "0-0-3"]]]}
    {:index 3, :time 21000000, :type :ok, :process 4, :f :poll, :value [[:poll {0 [[17 "0-0-3"]]}]]}

Every operation stands there twice: as :invoke, and as :ok (done), :fail (certainly not done) or :info (nobody knows).
`:f :send` and `:f :poll` have sends or polls only, `:f :txn` is a transaction with both.
Touches no file. Shown by tests/reports/test_reports_jepsen_operations.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, NoReturn

from reports.jepsen.edn import EdnError, Form, Keyword, Map, Tagged, place_in, read_elements, write
from runlog.files.nearest import nearest_name

OPERATIONS_MAX: Final = 20_000_000  # in one file, both halves counted: 10 GB of memory


class HistoryError(ValueError):
    """The text is EDN, but no history of Jepsen's Kafka workload. The message begins with the place."""


class _PairError(HistoryError):
    """A process does two things at a time. Whoever has the text knows the place."""


class Outcome(StrEnum):
    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"  # certainly not done
    INFO = "info"  # nobody knows


class Action(StrEnum):
    TXN = "txn"
    SEND = "send"
    POLL = "poll"
    ASSIGN = "assign"
    SUBSCRIBE = "subscribe"
    CRASH = "crash"  # the client is torn down; its process has a new one
    SETTINGS = "settings"  # ours: of a process that is no client, so Jepsen's checker leaves it out


_MOVES_DATA: Final = (Action.TXN, Action.SEND, Action.POLL)
_KNOWN_ELSEWHERE: Final = ("debug-topic-partitions",)  # of Jepsen's workload; it says nothing about records


class Send(NamedTuple):
    """One record that is to be appended to the log of `key`. `offset` is None until the broker tells it."""

    key: Form
    offset: int | None
    value: Form


class Poll(NamedTuple):
    """What one poll returned: of each key (offset, value) in the order in which they came. An offset may be None."""

    reads: tuple[tuple[Form, tuple[tuple[int | None, Form], ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One line of a history. `value` has sends and polls; `keys` has what is assigned or subscribed to."""

    index: int
    time_ns: int
    type: Outcome
    process: int | str  # a word is no client: `nemesis`
    f: str  # an Action, or a word that says nothing about records
    value: tuple[Send | Poll, ...] = ()
    keys: tuple[Form, ...] = ()
    seeks: bool = False  # :seek-to-beginning?, of an assignment
    rebalanced: tuple[Form, ...] = ()  # keys that were given or taken during the operation (:rebalance-log)
    read_to_end: tuple[Form, ...] = ()  # ours: keys that this process has now read to their end, when all was written
    client: str = ""  # ours: whose operation it is, for people
    settings: Mapping[str, Form] = field(default_factory=dict)  # of Action.SETTINGS, and what a nemesis tells

    @property
    def is_client(self) -> bool:
        return isinstance(self.process, int)

    @property
    def moves_data(self) -> bool:
        return self.is_client and self.f in _MOVES_DATA

    @property
    def sends(self) -> list[Send]:
        return [part for part in self.value if isinstance(part, Send)]

    @property
    def reads(self) -> dict[Form, list[tuple[int | None, Form]]]:
        """Of each key, what all polls of the operation returned, in order."""
        found: dict[Form, list[tuple[int | None, Form]]] = {}
        for part in self.value:
            if isinstance(part, Poll):
                for key, pairs in part.reads:
                    found.setdefault(key, []).extend(pairs)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What clients completed, in order of the file. An operation that was invoked and never completed is in it as
    :info, with what it was to do."""

    operations: tuple[Operation, ...]
    lines: int  # both halves of each operation
    settings: Mapping[str, Form]  # of a run of ours, as it wrote them; empty in other histories
    left_out: Mapping[str, int] = field(default_factory=dict)  # :f of clients that says nothing about records


def history_of(operations: Iterable[Operation]) -> History:
    """Pairs invocations with completions. HistoryError if a process does two things at a time."""
    done: list[Operation] = []
    pending: dict[int | str, tuple[int, Operation]] = {}  # process -> place of its invocation in `done`, and itself
    settings: dict[str, Form] = {}
    left_out: dict[str, int] = {}
    lines = 0
    for operation in operations:
        lines += 1
        if not operation.is_client:
            if operation.f == Action.SETTINGS:
                settings.update(operation.settings)
            continue
        if operation.type is Outcome.INVOKE:
            if operation.process in pending:
                before = pending[operation.process][1].index
                raise _PairError(
                    f"operation {operation.index}: process {operation.process} begins :{operation.f}, but its "
                    f"operation {before} has no completion yet; a process does one thing at a time"
                )
            pending[operation.process] = len(done), operation
            done.append(operation)
            continue
        begun = pending.pop(operation.process, None)
        if begun is not None:
            if begun[1].f != operation.f:
                raise _PairError(
                    f"operation {operation.index}: process {operation.process} completes :{operation.f}, but its "
                    f"operation {begun[1].index} began :{begun[1].f}"
                )
            if not operation.value:
                operation = replace(operation, value=_without_results(begun[1].value))
        if operation.moves_data or operation.f in (Action.ASSIGN, Action.SUBSCRIBE, Action.CRASH):
            done.append(operation)
        elif operation.f not in _KNOWN_ELSEWHERE:
            left_out[operation.f] = left_out.get(operation.f, 0) + 1
    open_places = {place for place, _ in pending.values()}
    return History(
        operations=tuple(
            replace(operation, type=Outcome.INFO) if operation.type is Outcome.INVOKE else operation
            for place, operation in enumerate(done)
            if operation.type is not Outcome.INVOKE or place in open_places
        ),
        lines=lines,
        settings=settings,
        left_out=left_out,
    )


def _without_results(value: tuple[Send | Poll, ...]) -> tuple[Send | Poll, ...]:
    return tuple(part for part in value if isinstance(part, Send))


def read_history(text: str) -> History:
    """EdnError or HistoryError, each with line and column, for a text that is no history."""
    last = [0]  # where the operation begins that was read last
    try:
        return history_of(_operations(text, last))
    except _PairError as error:
        line, column = place_in(text, last[0])
        raise HistoryError(f"line {line}, column {column}: {error}") from None


def _operations(text: str, last: list[int]) -> Iterator[Operation]:
    count = 0
    for form, at in read_elements(text):
        last[0] = at
        if count >= OPERATIONS_MAX:
            raise HistoryError(f"more than {OPERATIONS_MAX:,} operations")
        try:
            yield operation_of(form, count)
        except _ShapeError as error:
            line, column = place_in(text, at)
            raise HistoryError(f"line {line}, column {column}: operation {count}: {error}") from None
        count += 1
    if not count:
        raise HistoryError("line 1, column 1: no operation; expected maps like {:type :ok, :process 0, :f :send, ...}")


class _ShapeError(ValueError):
    """What is wrong with an operation; whoever knows its place adds it."""


_INDEX, _TIME, _TYPE, _PROCESS, _F, _VALUE = map(Keyword, ("index", "time", "type", "process", "f", "value"))
_SEEK, _LOG, _KEYS = map(Keyword, ("seek-to-beginning?", "rebalance-log", "keys"))
_END, _CLIENT, _SETTINGS = map(Keyword, ("read-to-end", "client", "settings"))
_SEND, _POLL = Keyword("send"), Keyword("poll")
_TYPES: Final = {Keyword(word.value): word for word in Outcome}
_ACTION_NAMES: Final = tuple(action.value for action in Action)


def operation_of(form: Form, position: int) -> Operation:
    """One map of a history. `position` is its index, if it tells none. ValueError says what is wrong with its shape."""
    if isinstance(form, Tagged):  # #jepsen.history.Op{...}
        form = form.value
    if not isinstance(form, Map):
        _refuse(f"expected a map, got {_shown(form)}")
    for needed in (_TYPE, _PROCESS, _F):
        if needed not in form:
            _refuse(f"{write(needed)} is missing{_meant(needed.name, [key.name for key in form if _is_word(key)])}")
    outcome = _TYPES.get(form[_TYPE])
    if outcome is None:
        got = form[_TYPE]
        meant = _meant(_name(got), [word.value for word in Outcome])
        _refuse(f":type {_shown(got)}{meant}; expected :invoke, :ok, :fail or :info")
    process, f = form[_PROCESS], _name(form[_F])
    if not (isinstance(process, int) and not isinstance(process, bool)):
        if not isinstance(process, Keyword | str):
            _refuse(f":process {_shown(process)}; expected a number, or :nemesis")
        process = _name(process)
    whole = {
        "index": _whole(form, _INDEX, position),
        "time_ns": _whole(form, _TIME, 0),
        "type": outcome,
        "process": process,
        "f": f,
    }
    value = form.get(_VALUE)
    if isinstance(process, str):
        told = {_name(key): item for key, item in value.items()} if isinstance(value, Map) else {}
        return Operation(**whole, settings=told)
    if not f:
        _refuse(f":f {_shown(form[_F])}; expected a keyword like :send")
    if f in _MOVES_DATA:
        return Operation(
            **whole,
            value=_parts(value, f),
            rebalanced=_rebalanced(form.get(_LOG)),
            read_to_end=_vector(form.get(_END), ":read-to-end"),
            client=_name(form.get(_CLIENT)),
        )
    if f in (Action.ASSIGN, Action.SUBSCRIBE):
        return Operation(
            **whole, keys=_vector(value, ":value"), seeks=form.get(_SEEK) is True, client=_name(form.get(_CLIENT))
        )
    if f not in _ACTION_NAMES and f not in _KNOWN_ELSEWHERE and (near := nearest_name(f, _ACTION_NAMES)):
        _refuse(f":f :{f} is unknown; did you mean :{near}?")
    return Operation(**whole)


def _parts(value: Form, f: str) -> tuple[Send | Poll, ...]:
    return tuple([_part(part, f) for part in _vector(value, ":value")])


def _part(part: Form, f: str) -> Send | Poll:
    if not isinstance(part, tuple) or not part:
        _refuse(f"{_shown(part)} in :value; expected [:send key value] or [:poll {{key [[offset value]]}}]")
    word = part[0]
    if word == _SEND and f != Action.POLL:
        if len(part) != 3:
            _refuse(f"{_shown(part)}; expected [:send key value] or [:send key [offset value]]")
        told = part[2]
        if isinstance(told, tuple) and len(told) == 2 and (told[0] is None or _is_offset(told[0])):
            return Send(part[1], told[0], told[1])
        return Send(part[1], None, told)
    if word == _POLL and f != Action.SEND:
        if len(part) > 2:
            _refuse(f"{_shown(part)}; expected [:poll] or [:poll {{key [[offset value]]}}]")
        return Poll(_reads(part[1]) if len(part) == 2 else ())
    if word in (_SEND, _POLL):
        _refuse(f"{_shown(part)} in an operation of :f :{f}; sends and polls together are :f :txn")
    meant = _meant(_name(word), ["send", "poll"])
    raise _ShapeError(f"{_shown(part)} begins with neither :send nor :poll{meant}")


def _reads(found: Form) -> tuple[tuple[Form, tuple[tuple[int | None, Form], ...]], ...]:
    if found is None:
        return ()
    if not isinstance(found, Map):
        _refuse(f"a poll returned {_shown(found)}; expected {{key [[offset value]]}}")
    for key, pairs in found.items():
        if not isinstance(pairs, tuple):
            _refuse(f"a poll returned {_shown(pairs)} of key {_shown(key)}; expected [[offset value]]")
        for pair in pairs:
            if not (isinstance(pair, tuple) and len(pair) == 2 and (pair[0] is None or _is_offset(pair[0]))):
                _refuse(f"a poll returned {_shown(pair)} of key {_shown(key)}; expected [offset value]")
    return tuple(found.items())


def _rebalanced(log: Form) -> tuple[Form, ...]:
    keys: list[Form] = []
    for event in _vector(log, ":rebalance-log"):
        if isinstance(event, Map):
            keys += _vector(event.get(_KEYS), ":keys")
    return tuple(keys)


def _vector(value: Form, name: str) -> tuple[Form, ...]:
    if value is None:
        return ()
    if isinstance(value, frozenset):
        return tuple(value)
    if not isinstance(value, tuple):
        _refuse(f"{name} {_shown(value)}; expected a vector")
    return value


def _whole(form: Map, key: Keyword, default: int) -> int:
    value = form.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(f"{write(key)} {_shown(value)}; expected a whole number")
    return value


def _is_offset(value: Form) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_word(form: Form) -> bool:
    return isinstance(form, Keyword)


def _name(form: Form) -> str:
    return form.name if isinstance(form, Keyword) else form if isinstance(form, str) else ""


def _meant(word: str, names: Sequence[str]) -> str:
    near = nearest_name(word, names) if word else None
    return f", perhaps :{near} is meant" if near else ""


def _shown(form: Form) -> str:
    text = write(form)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _refuse(what: str) -> NoReturn:
    raise _ShapeError(what)


def form_of(operation: Operation) -> Map:
    """An operation as Jepsen writes it, with our own keys behind: `operation_of` gives the same operation again."""
    form: dict[Any, Form] = {
        _INDEX: operation.index,
        _TIME: operation.time_ns,
        _TYPE: Keyword(operation.type.value),
        _PROCESS: operation.process if isinstance(operation.process, int) else Keyword(operation.process),
        _F: Keyword(operation.f),
        _VALUE: None,
    }
    if not operation.is_client:
        form[_VALUE] = Map({Keyword(name): value for name, value in operation.settings.items()})
        return Map(form)
    if operation.f in _MOVES_DATA:
        form[_VALUE] = tuple([_part_form(part, operation.type) for part in operation.value])
    elif operation.f in (Action.ASSIGN, Action.SUBSCRIBE):
        form[_VALUE] = operation.keys
    if operation.seeks:
        form[_SEEK] = True
    if operation.rebalanced:
        form[_LOG] = (Map({_KEYS: operation.rebalanced}),)
    if operation.read_to_end:
        form[_END] = operation.read_to_end
    if operation.client:
        form[_CLIENT] = operation.client
    return Map(form)


def _part_form(part: Send | Poll, outcome: Outcome) -> Form:
    if isinstance(part, Poll):
        return (_POLL,) if outcome is Outcome.INVOKE else (_POLL, Map(part.reads))
    is_pair = isinstance(part.value, tuple) and len(part.value) == 2  # alone it would look like [offset value]
    if part.offset is None and outcome is not Outcome.OK and not is_pair:
        return (_SEND, part.key, part.value)
    return (_SEND, part.key, (part.offset, part.value))


def line_of(operation: Operation) -> str:
    """One line of a history's file, without its end."""
    return write(form_of(operation))


__all__ = [
    "Action", "EdnError", "History", "HistoryError", "Operation", "Outcome", "Poll", "Send", "form_of", "history_of",
    "line_of", "operation_of", "read_history",
]  # fmt: skip
