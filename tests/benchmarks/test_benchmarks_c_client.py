"""The load from C, against a real broker: all records are written and read, and what is missing ends it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.compiled import compiler
from benchmarks.samples import C_CLIENT, ONE
from benchmarks.subject import Subject
from harness.errors import EnvironmentFault

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="the program is made by a C compiler, and there is none"),
]
LOAD_BYTES = 2_048_000


@pytest.fixture
def subject(tmp_path: Path) -> Iterator[Subject]:
    with Subject("reference", ONE, tmp_path) as subject:
        yield subject


def test_it_reads_what_it_wrote_and_no_more(subject: Subject) -> None:
    topic = subject.create_topic()
    assert subject.load(C_CLIENT, "produce", topic, LOAD_BYTES, 16_384).mb_per_s > 0
    assert subject.load(C_CLIENT, "consume", topic, LOAD_BYTES, 16_384).mb_per_s > 0
    subject.load(C_CLIENT, "produce", topic, LOAD_BYTES, 16_384)
    assert subject.load(C_CLIENT, "consume", topic, 2 * LOAD_BYTES, 16_384).mb_per_s > 0, "all of both, in order"


def test_records_that_are_refused_end_it_with_their_error(subject: Subject) -> None:
    topic = subject.create_topic(config={"max.message.bytes": "900"})
    with pytest.raises(EnvironmentFault, match="expected 2000 acknowledged, got 0 and 2000 refused"):
        subject.load(C_CLIENT, "produce", topic, LOAD_BYTES, 16_384)
