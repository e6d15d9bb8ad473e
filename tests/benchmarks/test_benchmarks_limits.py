"""The page about limits says no more than its samples, and perf's samples go to whom they belong."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from benchmarks.compiled import compiler
from benchmarks.limits.__main__ import load
from benchmarks.limits.page import BARE, BARE_IN_PYTHON, MOCK, Document, Sample, Split, render
from benchmarks.limits.servers import bare_servers, running_bare, running_mock
from benchmarks.limits.split import shares

PERF = """\
  ffffffff81 copy_from_user ([kernel.kallsyms])
  ffffffff82 ext4_da_write_begin ([kernel.kallsyms])
  ffffffff83 __x64_sys_pwrite64 ([kernel.kallsyms])
      7f0001 pwrite64 (/usr/lib/libc.so.6)

  ffffffff84 tcp_recvmsg ([kernel.kallsyms])
  ffffffff85 __x64_sys_read ([kernel.kallsyms])

      55e001 _PyEval_EvalFrameDefault (/opt/python3.11/bin/python3.11)
      55e002 main (/opt/python3.11/bin/python3.11)

      7f0002 [unknown] (/venv/lib/python3.11/site-packages/crc32c/_crc32c.so)

"""


def test_a_sample_belongs_to_the_system_call_or_to_the_library_in_which_it_was_taken() -> None:
    found = shares(PERF.splitlines())
    assert found == {
        "kernel: writes to the log": 0.25,
        "kernel: receives": 0.25,
        "Python's interpreter": 0.25,
        "CRC-32C": 0.25,
    }


def test_the_page_says_what_an_aim_leaves_beside_what_the_barest_server_takes() -> None:
    document = Document(date="2026-11-28", command="c", host={"processor": "p"}, rounds=1)
    servers = ((f"{BARE}, writes nothing", 9000.0, 1.0), (BARE, 500.0, 25.0), (BARE_IN_PYTHON, 400.0, 30.0),
               (MOCK, 300.0, 9.0), ("reference broker", 350.0, 40.0), ("Apache Kafka", 250.0, 80.0))  # fmt: skip
    for batch_bytes, times in ((16_384, 1), (131_072, 2)):
        for server, rate, server_us in servers:
            document.samples.append(
                Sample(
                    server=server,
                    batch_bytes=batch_bytes,
                    round_number=1,
                    mb_per_s=rate * times if server == BARE else rate,
                    server_us=server_us,
                    client_us=5.0,
                )
            )
    document.splits.append(Split(batch_bytes=16_384, connections=2, us=50.0, shares={"CRC-32C": 0.1}))
    page = render(document)
    assert "| 16 KiB | 3 | 750 | 22 | 25 | 30 | 40 | out of reach: the bare server has 500 MB/s |" in page
    left = "left for the work of a broker: 185 in C, 180 in Python"
    assert f"| 128 KiB | 2.5 | 625 | 210 | 25 | 30 | 40 | {left} |" in page
    assert "| 16 KiB | bare, in C, 1 thread | 500 (500-500) | 2.00 |" in page
    assert "| CRC-32C | 5.0 (10%) |" in page


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None, reason="no C compiler")
def test_bare_servers_take_a_load_whole_and_answer_with_offsets_that_follow(tmp_path: Path) -> None:
    for bare in bare_servers(tmp_path):
        with running_bare(bare, tmp_path, "bench", 16) as served:
            found = load(served.bootstrap, "bench", 4_194_304, 16_384)
            assert found["records"] == 4_096, bare.name
            written = tmp_path / "written"
            assert (written.stat().st_size if bare.writes else 0) >= (4_194_304 if bare.writes else 0), bare.name
            port = int(served.bootstrap.rpartition(":")[2])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
        assert not written.exists()


@pytest.mark.slow
def test_librdkafkas_mock_cluster_takes_a_load() -> None:
    with running_mock("bench") as served:
        assert load(served.bootstrap, "bench", 1_048_576, 16_384)["records"] == 1_024
