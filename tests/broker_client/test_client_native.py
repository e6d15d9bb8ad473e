"""The client in a process where gevent replaced threads, sockets and polling: real threads beside the greenlets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

SCRIPT = """
import sys
sys.path[:0] = [{here!r}, {root!r}]
from gevent import monkey
import subprocess
server = subprocess.Popen([sys.executable, "-c", {server!r}], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
bootstrap = server.stdout.readline().strip()
monkey.patch_all()
import gevent, time
from broker.door.clients import Producer
from broker.client import native
import socket
assert socket.socket.__module__.startswith("gevent")
assert not type(native.new_socket(socket.AF_INET)).__module__.startswith("gevent")

ticks = []
def tick():
    while True:
        ticks.append(time.monotonic())
        gevent.sleep(0.005)
gevent.spawn(tick)

result = []
def work():
    with Producer({{"bootstrap.servers": bootstrap, "linger.ms": 1}}) as producer:
        for _ in range(50):
            futures = [producer.send("t", b"x" * 100) for _ in range(100)]
            result.extend(future.get(10).offset for future in futures)
ended = native.start_thread(work)
while not ended.is_set() and len(ticks) < 4000:
    gevent.sleep(0.005)
server.stdin.close()
print(len(result), len(set(result)), len(ticks) > 3)
"""

SERVER = """
import sys
sys.path[:0] = [{here!r}, {root!r}]
from tiny_broker import TinyBroker
broker = TinyBroker()
print(broker.bootstrap, flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.thorough
def test_the_producer_works_in_an_os_thread_of_a_patched_process() -> None:
    places = {"here": str(HERE), "root": str(HERE.parent.parent)}
    script = SCRIPT.format(server=SERVER.format(**places), **places)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert done.stdout.split() == ["5000", "5000", "True"]


@pytest.mark.slow
@pytest.mark.thorough
def test_importing_the_client_does_not_import_gevent() -> None:
    root = str(HERE.parent.parent)
    script = f"import sys; sys.path.insert(0, {root!r}); import broker.door.clients; print('gevent' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
