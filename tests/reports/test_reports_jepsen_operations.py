"""Operations as they stand in EDN: Jepsen's forms are read, and others are refused with the nearest right word."""

from __future__ import annotations

import random

import pytest

from reports.jepsen.edn import Keyword, read_forms
from reports.jepsen.operations import (
    Action,
    HistoryError,
    Operation,
    Outcome,
    Poll,
    Send,
    line_of,
    operation_of,
    read_history,
)
from tests.amount import examples
from tests.reports.jepsen_histories import disorder


def _one(text: str) -> Operation:
    (operation,) = read_history(text).operations
    return operation


def test_an_operation_as_jepsen_prints_it() -> None:
    """The form of `jepsen.history.Op`, with lists for vectors, keys of its own, and a key that is text."""
    operation = _one(
        "#jepsen.history.Op{:index 7797, :time 13620301650, :type :ok, :process 23, :f :txn, :poll-ms 1000,\n"
        ' :value ([:send 5 [272 140]] [:poll {5 [[272 140] [273 142]], "56" []}] [:send :x 3] [:poll]),\n'
        " :rebalance-log [{:keys [5 6], :type :revoked}]}"
    )
    assert (operation.index, operation.time_ns, operation.process) == (7797, 13620301650, 23)
    assert operation.type is Outcome.OK
    assert operation.value == (
        Send(5, 272, 140),
        Poll(((5, ((272, 140), (273, 142))), ("56", ()))),
        Send(Keyword("x"), None, 3),
        Poll(()),
    )
    assert operation.rebalanced == (5, 6)


def test_what_is_left_out_has_a_default() -> None:
    operation = _one("{:type :info, :f :assign, :process 3, :value #{1}, :seek-to-beginning? true}")
    assert (operation.index, operation.time_ns, operation.keys, operation.seeks) == (0, 0, (1,), True)


def test_an_operation_without_its_end_is_one_of_unknown_outcome() -> None:
    history = read_history("{:type :invoke, :f :send, :process 0, :value [[:send 1 :a]]}")
    assert [(op.type, op.sends[0].value.name) for op in history.operations] == [(Outcome.INFO, "a")]


def test_an_end_without_value_has_what_was_to_be_sent() -> None:
    history = read_history(
        "{:type :invoke, :f :txn, :process 0, :value [[:poll] [:send 1 2]]}\n"
        "{:type :fail, :f :txn, :process 0, :value nil}"
    )
    assert [(op.type, op.value) for op in history.operations] == [(Outcome.FAIL, (Send(1, None, 2),))]


def test_whoever_is_no_client_is_left_out_and_what_says_nothing_is_counted() -> None:
    history = read_history(
        "{:type :info, :f :kill, :process :nemesis, :value :all}\n"
        '{:type :info, :f :settings, :process :nemesis, :value {:acks "1", "cell" "c"}}\n'
        "{:type :ok, :f :debug-topic-partitions, :process 0, :value {1 2}}\n"
        "{:type :ok, :f :whatever, :process 0, :value [1]}\n"
    )
    assert history.operations == ()
    assert history.settings == {"acks": "1", "cell": "c"}
    assert history.left_out == {"whatever": 1}
    assert history.lines == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: no operation"),
        ("; nothing\n", "line 1, column 1: no operation"),
        ("7", "line 1, column 1: operation 0: expected a map, got 7"),
        ("{:f :send, :process 0}", "operation 0: :type is missing"),
        ("{:typ :ok, :f :send, :process 0}", "operation 0: :type is missing, perhaps :typ is meant"),
        ("{:type :inof, :f :send, :process 0}",
         ":type :inof, perhaps :info is meant; expected :invoke, :ok, :fail or :info"),
        ("{:type :ok, :f :pol, :process 0}", ":f :pol is unknown; did you mean :poll?"),
        ("{:type :ok, :f 3, :process 0}", ":f 3; expected a keyword like :send"),
        ("{:type :ok, :f :send, :process 1.5}", ":process 1.5; expected a number, or :nemesis"),
        ("{:type :ok, :f :send, :process 0, :index :a}", ":index :a; expected a whole number"),
        ("{:type :ok, :f :send, :process 0, :value 3}", ":value 3; expected a vector"),
        ("{:type :ok, :f :send, :process 0, :value [3]}", "3 in :value; expected [:send key value]"),
        ("{:type :ok, :f :txn, :process 0, :value [[:sned 1 2]]}",
         "[:sned 1 2] begins with neither :send nor :poll, perhaps :send is meant"),
        ("{:type :ok, :f :txn, :process 0, :value [[:send 1]]}", "[:send 1]; expected [:send key value]"),
        ("{:type :ok, :f :send, :process 0, :value [[:poll]]}", "[:poll] in an operation of :f :send"),
        ("{:type :ok, :f :poll, :process 0, :value [[:send 1 2]]}", "[:send 1 2] in an operation of :f :poll"),
        ("{:type :ok, :f :poll, :process 0, :value [[:poll 3]]}", "a poll returned 3; expected {key [[offset value]]}"),
        ("{:type :ok, :f :poll, :process 0, :value [[:poll {1 2}]]}", "a poll returned 2 of key 1"),
        ("{:type :ok, :f :poll, :process 0, :value [[:poll {1 [[-1 2]]}]]}", "a poll returned [-1 2] of key 1"),
        ("{:type :ok, :f :poll, :process 0, :value [[:poll {} {}]]}", "[:poll {} {}]; expected [:poll]"),
        ("{:type :invoke, :f :poll, :process 0}\n{:type :invoke, :f :send, :process 0}",
         "line 2, column 1: operation 1: process 0 begins :send, but its operation 0 has no completion yet"),
        ("{:type :invoke, :f :poll, :process 0}\n{:type :ok, :f :send, :process 0}",
         "line 2, column 1: operation 1: process 0 completes :send, but its operation 0 began :poll"),
    ],
)  # fmt: skip
def test_what_is_no_history_is_refused_with_the_nearest_right_word(text: str, message: str) -> None:
    with pytest.raises(HistoryError) as caught:
        read_history(text)
    assert message in str(caught.value)


def test_a_wrong_shape_is_told_with_its_line() -> None:
    good = "{:type :ok, :f :poll, :process 0, :value [[:poll {1 [[0 1]]}]]}"
    message = r"^line 3, column 3: operation 2: :f :assing is unknown; did you mean :assign\?"
    with pytest.raises(HistoryError, match=message):
        read_history(f"{good}\n{good}\n  {{:type :ok, :f :assing, :process 0}}\n{good}")


def test_a_pair_is_a_value_too() -> None:
    """[:send 1 [2 3]] says that 3 is at offset 2. So a value that is a pair has its offset, or none, beside it."""
    operation = Operation(
        index=0, time_ns=0, type=Outcome.INVOKE, process=0, f=Action.SEND, value=(Send(1, None, (2, 3)),)
    )
    assert ":value [[:send 1 [nil [2 3]]]]" in line_of(operation)
    assert _one(line_of(operation)).value == operation.value


def test_every_operation_is_the_same_after_it_was_text() -> None:
    for seed in range(examples(300)):
        for operation in disorder(seed):
            line = line_of(operation)
            assert "\n" not in line
            (read,) = read_forms(line)
            assert operation_of(read.form, 0) == operation


def test_settings_are_the_same_after_they_were_text() -> None:
    rng = random.Random(1)
    told = {"acks": "1", "removed": {1: ((0, 5),)}, "x": rng.random()}
    operation = Operation(index=0, time_ns=0, type=Outcome.INFO, process="nemesis", f=Action.SETTINGS, settings=told)
    assert read_history(line_of(operation)).settings == told
