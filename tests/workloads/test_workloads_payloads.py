"""What records are made of: distributions of sizes, a corpus, recorded traces; and the settings that contradict."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML

from runlog.streams.payload import HEADER_BYTES, parse_fast
from workloads import schedule
from workloads.model import Workload
from workloads.payloads import PayloadError, build_pool, drawn_sizes, read_times_ms
from workloads.schedule import Piece, PiecewiseRate, Share


def _workload(**fields: Any) -> Workload:
    return Workload.model_validate({"rate_per_s": 1_000, **fields})


def test_sizes_follow_their_distribution() -> None:
    uniform = drawn_sizes(_workload(sizes={"kind": "uniform", "low_bytes": 100, "high_bytes": 300}).sizes, 1)  # type: ignore[arg-type]
    assert (uniform.min(), uniform.max()) == (100, 300)
    assert uniform.mean() == pytest.approx(200, rel=0.02)
    shape = {"kind": "lognormal", "median_bytes": 400, "sigma": 0.5, "high_bytes": 2_000}
    lognormal = drawn_sizes(_workload(sizes=shape).sizes, 1)  # type: ignore[arg-type]
    assert np.median(lognormal) == pytest.approx(400, rel=0.05)
    assert np.quantile(lognormal, 0.841) == pytest.approx(400 * np.exp(0.5), rel=0.05)
    assert lognormal.max() <= 2_000
    listed = {"kind": "list", "sizes": [{"size_bytes": 64, "weight": 3}, {"size_bytes": 1_000, "weight": 1}]}
    drawn = drawn_sizes(_workload(sizes=listed).sizes, 1)  # type: ignore[arg-type]
    assert np.mean(drawn == 64) == pytest.approx(0.75, abs=0.03)
    assert set(drawn.tolist()) == {64, 1_000}


def test_values_have_the_drawn_sizes_and_the_asked_compressibility() -> None:
    shape = {"kind": "uniform", "low_bytes": 500, "high_bytes": 1_500}
    pool = build_pool(_workload(sizes=shape, compressibility=0.75), seed=3)
    sizes = pool.sizes_bytes(0, 200)
    values = [pool.value(1, 0, seq, 10) for seq in range(200)]
    assert [len(value) for value in values] == sizes.tolist()
    assert all((parsed := parse_fast(value)) is not None and parsed[4] for value in values)
    assert pool.achieved_ratio() == pytest.approx(4.0, rel=0.15)
    assert build_pool(_workload(sizes=shape, compressibility=0.75), seed=3).value(1, 0, 7, 10) == values[7]


def test_a_corpus_gives_its_lines_in_order_and_round_again(tmp_path: Path) -> None:
    corpus = tmp_path / "orders.jsonl"
    corpus.write_bytes(b'{"id":1}\r\n\n{"id":3,"name":"\xc3\xbc"}\n')
    pool = build_pool(_workload(corpus=str(corpus)), seed=1)
    bodies = [pool.value(0, 0, seq, 0)[HEADER_BYTES:] for seq in range(4)]
    assert bodies == [b'{"id":1}', b"", b'{"id":3,"name":"\xc3\xbc"}', b'{"id":1}']
    (tmp_path / "empty").touch()
    for path in (tmp_path / "absent", tmp_path / "empty"):
        with pytest.raises(PayloadError, match=path.name):
            build_pool(_workload(corpus=str(path)), seed=1)


def test_a_recorded_trace_is_replayed_faster_on_request(tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text("# ms\n0\n10.5\n\n10.5\n400\n")
    fields = {"schedule": {"kind": "replay", "file": str(trace), "speed": 2}, "warmup_ms": 1_000, "measure_ms": 5_000}
    workload = _workload(**fields)
    arrivals = schedule.build(workload, 1, read_times_ms(trace))
    assert arrivals.times_ns(np.arange(arrivals.total)).tolist() == [
        1_000_000_000, 1_005_250_000, 1_005_250_000, 1_200_000_000,
    ]  # fmt: skip
    for text, problem in (
        ("5\n4\n", "trace.txt:2: 4 is before"),
        ("x\n", "trace.txt:1: expected milliseconds"),
        ("", "none"),
    ):
        trace.write_text(text)
        with pytest.raises(PayloadError, match=problem):
            read_times_ms(trace)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"corpus": "x", "record_size_bytes": 100}, "leave it out"),
        ({"corpus": "x", "compressibility": 0.9}, "leave it out"),
        ({"corpus": "x", "sizes": {"kind": "uniform", "low_bytes": 50, "high_bytes": 60}}, "either sizes or corpus"),
        ({"sizes": {"kind": "uniform", "low_bytes": 60, "high_bytes": 50}}, "more than high_bytes"),
        ({"keys": "zipf", "key_hot_share": 0.9}, "belongs to keys: hot"),
        ({"keys": "uniform", "key_zipf_exponent": 2}, "belongs to keys: zipf"),
        ({"consumers": 3, "readers": [{"name": "a"}]}, "leave consumers out"),
        ({"readers": [{"name": "a"}, {"name": "a"}]}, "different names"),
        ({"schedule": {"kind": "replay"}}, "either times_ms or file"),
    ],
)
def test_settings_that_contradict_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        _workload(**fields)


def test_a_workload_survives_its_own_dump() -> None:
    readers = [{"name": "tail", "consumers": 2}, {"name": "late", "start_after_ms": 5}]
    sizes = {"kind": "lognormal", "median_bytes": 400, "sigma": 0.5}
    workload = _workload(readers=readers, sizes=sizes, keys="hot", key_hot_share=0.9)
    assert workload.consumers == 3
    assert Workload.model_validate(workload.model_dump()) == workload
    assert Workload.model_validate_json(workload.model_dump_json()) == workload


@pytest.mark.parametrize(("total", "of", "burst"), [(100, 1, 7), (100, 3, 7), (99, 2, 10), (5, 3, 10), (0, 2, 3)])
def test_shares_with_bursts_cover_every_record_once_and_count_agrees_with_times(
    total: int, of: int, burst: int
) -> None:
    whole = PiecewiseRate([Piece(duration_s=total / 50, rate_from=50, rate_to=50)] if total else [])
    assert whole.total == total
    shares = [Share(whole, index=index, of=of, burst=burst) for index in range(of)]
    assert sum(share.total for share in shares) == total
    times = np.concatenate([share.times_ns(np.arange(share.total)) for share in shares])
    starts = whole.times_ns(np.arange(0, total, burst))
    assert set(times.tolist()) == set(starts.tolist())
    for share in shares:
        for t_ns in (-1, 0, *(starts.tolist()), *((starts - 1).tolist()), 10**12):
            mine = share.times_ns(np.arange(share.total))
            assert share.count_until(t_ns) == int(np.count_nonzero(mine <= t_ns))


def test_the_examples_of_the_page_are_valid() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guide" / "load.md").read_text()
    examples = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    assert len(examples) == 4
    for example in examples:
        Workload.model_validate(YAML(typ="safe").load(example))
