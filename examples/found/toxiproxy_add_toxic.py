"""Toxiproxy 2.12.0 panics while a toxic is added (docs/guide/found.md): `python toxiproxy_add_toxic.py
PATH_OF_THE_SERVER`.

Exit code 0 if the server lives, 1 if it ended. Nothing but the standard library and the server is needed.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.request

API, UPSTREAM, PROXY = 18_474, 18_475, 18_476
SETTLE_S = 1.0


def call(method: str, path: str, body: object = None) -> None:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{API}{path}", method=method, data=data)
    urllib.request.urlopen(request, timeout=10)


def stall(name: str) -> None:
    toxic = {"name": name, "type": "bandwidth", "stream": "upstream", "attributes": {"rate": 0}}
    call("POST", "/proxies/p/toxics", toxic)


def main() -> int:
    server = subprocess.Popen([sys.argv[1], "-host", "127.0.0.1", "-port", str(API)], stdout=subprocess.DEVNULL)
    with contextlib.ExitStack() as stack:
        stack.callback(server.wait)
        stack.callback(server.terminate)
        stack.enter_context(socket.create_server(("127.0.0.1", UPSTREAM)))
        for _ in range(100):
            with contextlib.suppress(OSError):
                call("GET", "/version")
                break
            time.sleep(0.1)
        call("POST", "/proxies", {"name": "p", "listen": f"127.0.0.1:{PROXY}", "upstream": f"127.0.0.1:{UPSTREAM}"})
        with socket.create_connection(("127.0.0.1", PROXY)) as connection:
            connection.sendall(b"passes")
            time.sleep(SETTLE_S)
            for name in "abc":
                stall(name)
            connection.sendall(bytes(100_000))  # stuck, and then its sender is gone
            time.sleep(SETTLE_S)
        time.sleep(SETTLE_S)
        for name in "abc":
            with contextlib.suppress(OSError):  # the first may take longer than anybody waits
                call("DELETE", f"/proxies/p/toxics/{name}")
        with contextlib.suppress(OSError):
            stall("d")
        time.sleep(SETTLE_S)
        has_ended = server.poll() is not None
    print("the server ended" if has_ended else "the server lives")
    return int(has_ended)


if __name__ == "__main__":
    sys.exit(main())
