"""The ends of many connections: every byte comes back, and a far end that closes is an error, not a figure."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from benchmarks.compiled import compiler
from benchmarks.many_proxies import CrowdEnds, crowd_ends, crowd_samples

pytestmark = [pytest.mark.slow, pytest.mark.skipif(compiler() is None, reason="no C compiler")]


def test_a_crowd_is_served_whole(tmp_path: Path) -> None:
    with crowd_ends(tmp_path) as ends:
        assert ends.seconds([ends.far] * 50, trips=20) > 0
        samples = dict(crowd_samples([ends.far] * 50, ends, trips=20))
    assert samples["50 connections: round trips/s"] > 0
    assert len(samples) == 3, "nothing about the processor time of a server that is not there"


def test_a_far_end_that_closes_is_an_error(tmp_path: Path) -> None:
    def close_the_first(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(3)

    with crowd_ends(tmp_path) as ends, socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=close_the_first, args=(listener,))
        thread.start()
        broken = CrowdEnds(program=ends.program, far=listener.getsockname())
        with pytest.raises(RuntimeError, match="first bytes"):
            broken.seconds([broken.far], trips=1)
        thread.join(30)
