"""A pure Python client's load process keeps to one core, each process to its own; others are left alone."""

from __future__ import annotations

import multiprocessing
import os

import pytest

from workloads.affinity import keep_to_one_core


def _choose(client: str, number: int) -> tuple[int | None, set[int]]:
    return keep_to_one_core(client, number), os.sched_getaffinity(0)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: nothing to choose")
@pytest.mark.thorough
def test_each_process_of_a_pure_python_client_has_a_core_of_its_own() -> None:
    before = os.sched_getaffinity(0)
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        first = pool.apply(_choose, ("reference", 0))
        second = pool.apply(_choose, ("reference", 1))
        librdkafka = pool.apply(_choose, ("confluent", 0))
    assert first == (max(before), {max(before)})
    assert second[0] != first[0]
    assert second[1] == {second[0]}
    assert librdkafka == (None, before)
    assert os.sched_getaffinity(0) == before
