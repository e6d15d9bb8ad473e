"""Ports: distinct, free, and claimed by whoever took them, so that two runs on one host never meet on one."""

from __future__ import annotations

import random
import re
import subprocess
import sys

import pytest

from harness.clusters import ports as module
from harness.clusters.ports import PortAllocator, ephemeral_range_start, free_port, is_free
from harness.errors import EnvironmentFault

SAME = 7


def test_ports_are_distinct_free_and_below_the_ephemeral_range() -> None:
    ports = PortAllocator()
    taken = [ports.take() for _ in range(50)]
    assert len(set(taken)) == 50
    assert all(10_000 <= port < ephemeral_range_start() for port in taken)
    assert all(is_free("127.0.0.1", port) for port in taken)


def test_two_that_draw_the_same_numbers_do_not_get_the_same_ports() -> None:
    first, second = (PortAllocator(source=random.Random(SAME)) for _ in range(2))
    assert not {first.take() for _ in range(20)} & {second.take() for _ in range(20)}


def test_a_row_has_no_port_that_somebody_claims() -> None:
    first, second = (PortAllocator(source=random.Random(SAME)) for _ in range(2))
    hosts = ["127.0.0.1", "127.0.0.2"]
    begins = [ports.take_row(4, hosts) for _ in range(10) for ports in (first, second)]
    rows = [port for begin in begins for port in range(begin, begin + 4)]
    assert len(set(rows)) == len(rows)
    assert all(begin % 4 == 0 for begin in begins)


@pytest.mark.slow
def test_another_process_does_not_get_a_port_that_is_claimed_here_and_gets_it_afterwards() -> None:
    ports = PortAllocator(source=random.Random(SAME))
    here = ports.take()
    drawn = (
        "import random; from harness.clusters.ports import PortAllocator\n"
        f"print(PortAllocator(source=random.Random({SAME})).take())"
    )

    def there() -> int:
        return int(subprocess.run([sys.executable, "-c", drawn], capture_output=True, text=True, check=True).stdout)

    assert there() != here
    del ports
    assert there() == here


def test_where_all_are_claimed_the_error_says_where_it_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    row = PortAllocator()
    first = row.take_row(3, [row.host])  # three that nobody has: claims are those of all processes of this host
    del row
    monkeypatch.setattr(module, "_LOWEST_PORT", first)
    monkeypatch.setattr(module, "ephemeral_range_start", lambda: first + 3)
    ports = PortAllocator()
    assert sorted(ports.take() for _ in range(3)) == [first, first + 1, first + 2]
    where = f"no free port on 127.0.0.1 between {first} and {first + 2} in 400 tries"
    with pytest.raises(EnvironmentFault, match=re.escape(where)):
        ports.take()


def test_single_ports_stay_claimed_until_many_more_were_taken() -> None:
    assert len({free_port() for _ in range(40)}) == 40
