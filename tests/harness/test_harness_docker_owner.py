"""Which containers and networks are abandoned: an engine may be shared by hosts and by containers."""

from __future__ import annotations

import json

import pytest

from runlog.files.place import here

engine = pytest.importorskip("harness.clusters.docker.engine")

GONE = "4000000-5"


def labels(owner: str = GONE, **changed: str) -> dict[str, str]:
    place = here().as_json() | changed
    return {engine.OWNER_LABEL: owner, engine.PLACE_LABEL: json.dumps(place)}


def test_what_a_harness_of_this_place_that_is_gone_has_left_is_abandoned() -> None:
    assert engine.is_abandoned(labels())
    assert not engine.is_abandoned(engine.owner_labels()), "its owner is this process"


@pytest.mark.parametrize(
    "others",
    [
        labels(pid_namespace="pid:[1]"),
        labels(host="another", boot_id="b"),
        {engine.OWNER_LABEL: GONE},  # of an older harness
        {engine.OWNER_LABEL: GONE, engine.PLACE_LABEL: "{"},
        {engine.OWNER_LABEL: GONE, engine.PLACE_LABEL: "[" * 10_000},
        labels(owner="x-1"),
        labels(owner=f"{'9' * 5000}-1"),
        {},
    ],
)
def test_what_cannot_be_judged_from_here_stays(others: dict[str, str]) -> None:
    assert not engine.is_abandoned(others)
