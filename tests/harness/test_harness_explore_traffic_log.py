"""`harness.explore.execution.traffic_log`: the log of a search is bounded, and no trial misses a line of its own."""

from __future__ import annotations

import json
from pathlib import Path

from harness.explore.execution.traffic_log import TrafficLog
from runlog.records.codec import to_json
from runlog.records.exchange import ExchangeOutcome, KafkaExchange


def line(number: int, client_id: str = "") -> bytes:
    exchange = KafkaExchange(
        mono_ns=number,
        ended_ns=number,
        proxy="client-1",
        connection=1,
        client_id=client_id,
        api="Fetch",
        api_version=12,
        correlation_id=number,
        request_bytes=1,
        outcome=ExchangeOutcome.DELIVERED,
    )
    return json.dumps(to_json(exchange)).encode() + b"\n"


class Proxies:
    """They write on into the file that they have open, wherever it lies by now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reopened = 0
        self.file = path.open("ab", buffering=0)

    def reopen(self) -> None:
        self.reopened += 1
        self.file.close()
        self.file = self.path.open("ab", buffering=0)

    def write(self, *numbers: int) -> None:
        for number in numbers:
            self.file.write(line(number))


def numbers(log: TrafficLog, mark: object) -> list[int]:
    return [each.correlation_id for each in log.read(mark) if isinstance(each, KafkaExchange)]  # type: ignore[arg-type]


def test_a_trial_reads_what_was_written_since_it_began_across_files(tmp_path: Path) -> None:
    path = tmp_path / "exchanges.jsonl"
    proxies = Proxies(path)
    log = TrafficLog(path, proxies.reopen, file_bytes_max=3 * len(line(1)))
    proxies.write(1)
    first = log.begin()
    proxies.write(2, 3, 4)
    second = log.begin()  # here another file begins
    proxies.write(5)
    assert proxies.reopened == 1
    assert numbers(log, first) == [2, 3, 4, 5]
    assert numbers(log, second) == [5]


def test_a_file_goes_when_no_trial_that_runs_began_in_it_or_before_it(tmp_path: Path) -> None:
    path = tmp_path / "exchanges.jsonl"
    proxies = Proxies(path)
    log = TrafficLog(path, proxies.reopen, file_bytes_max=1)
    first = log.begin()
    proxies.write(1)
    second = log.begin()
    proxies.write(2)
    third = log.begin()
    log.end(second)
    assert numbers(log, first) == [1, 2], "the first trial still needs both"
    assert log.dropped_bytes == 0
    log.end(first)
    assert log.dropped_bytes == 2 * len(line(1))
    assert [each.name for each in tmp_path.iterdir()] == ["exchanges.jsonl"]
    assert numbers(log, third) == []


def test_the_disk_holds_no_more_than_the_trials_that_run_need_however_long_a_search_is(tmp_path: Path) -> None:
    path = tmp_path / "exchanges.jsonl"
    proxies = Proxies(path)
    log = TrafficLog(path, proxies.reopen, file_bytes_max=10 * len(line(1)))
    most = 0
    for number in range(1_000, 1_500):
        mark = log.begin()
        proxies.write(number)
        assert numbers(log, mark) == [number]
        log.end(mark)
        most = max(most, sum(each.stat().st_size for each in tmp_path.iterdir()))
    assert most <= 11 * len(line(1_000))
    assert log.dropped_bytes > 480 * len(line(1_000))


def test_a_trial_that_begins_in_the_middle_of_a_line_leaves_that_line_to_others(tmp_path: Path) -> None:
    path = tmp_path / "exchanges.jsonl"
    whole = line(1)
    path.write_bytes(whole[:9])  # a proxy is writing
    log = TrafficLog(path, lambda: None)
    mark = log.begin()
    with path.open("ab") as file:
        file.write(whole[9:] + line(2))
    assert numbers(log, mark) == [2]


def test_the_lines_of_one_client_are_found_and_those_of_others_are_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "exchanges.jsonl"
    log = TrafficLog(path, lambda: None)
    mark = log.begin()
    others = b'{"client_id": "somebody", this is not read}\n'
    path.write_bytes(line(1, "trial-1") + others + line(2, "trial-10") + line(3, "trial-1"))
    found = log.read_of("trial-1", mark)
    assert [each.correlation_id for each in found] == [1, 3]
