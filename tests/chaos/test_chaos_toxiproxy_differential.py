"""The same calls to the original server and to the embedded one: status, headers and body must be equal to the letter.

Each conversation runs on one server and then, with the same ports, on the other one. What users of the original rely on
is written down here as calls, and the original says what is right.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from chaos.toxiproxy.lookup import RunningServer
from harness.clusters.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.toxiproxy]  # real processes

PORTS = 4
P = "/proxies"
T = "/proxies/p/toxics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    method: str
    path: str
    body: object = None  # a text or bytes go as they are, anything else as JSON
    headers: tuple[tuple[str, str], ...] = ()
    is_chunked: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    status: int
    content_type: str | None
    location: str | None
    has_request_id: bool
    body: str


def get(path: str) -> Call:
    return Call(method="GET", path=path)


def post(path: str, body: object = None) -> Call:
    return Call(method="POST", path=path, body=body)


def patch(path: str, body: object = None) -> Call:
    return Call(method="PATCH", path=path, body=body)


def delete(path: str) -> Call:
    return Call(method="DELETE", path=path)


def proxy(name: str = "p", listen: str = "127.0.0.1:{0}", upstream: str = "127.0.0.1:1", **more: object) -> object:
    return {"name": name, "listen": listen, "upstream": upstream, **more}


def toxic(kind: str = "latency", **more: object) -> object:
    return {"type": kind, **more}


def refused_bodies(path: str, *, method: str = "POST") -> list[Call]:
    """JSON that is nothing that is wanted. What is no JSON has texts of its own here (docs/guide/toxiproxy.md)."""
    texts = ("", "null", "[]", "{}", '"text"', "5", "true", "{} trailing")
    more = ('{"name": 5}', '{"name": null}', '{"name": "q", "upstream": 7}')
    return [Call(method=method, path=path, body=text) for text in (*texts, *more)]


CONVERSATIONS: dict[str, list[Call]] = {
    "a proxy from its making to its end": [
        get(P),
        post(P, proxy()),
        get(P),
        get(f"{P}/p"),
        get(T),
        delete(f"{P}/p"),
        get(f"{P}/p"),
        get(P),
    ],
    "names": [
        post(P, proxy(name="a b")),
        get(f"{P}/a%20b"),
        get(f"{P}/a%2Fb"),
        post(P, proxy(name="é", listen="127.0.0.1:{2}")),
        get(f"{P}/%C3%A9"),
        post(P, proxy(name="x" * 600, listen="127.0.0.1:{3}")),
        get(f"{P}/" + "x" * 600),
    ],
    "a proxy that exists": [post(P, proxy()), post(P, proxy(listen="127.0.0.1:{1}")), get(P)],
    "what is missing": [
        post(P, {"listen": "127.0.0.1:{0}", "upstream": "127.0.0.1:1"}),
        post(P, {"name": "p", "listen": "127.0.0.1:{0}"}),
        post(P, {"name": "", "upstream": "127.0.0.1:1"}),
        post(P, {"name": "p", "upstream": ""}),
        post("/populate", [{"name": "p"}]),
        post("/populate", [proxy(), {"upstream": "127.0.0.1:1"}]),
        get(P),
    ],
    "bodies that are no proxy": refused_bodies(P),
    "bodies that are no list of proxies": refused_bodies("/populate"),
    "bodies that change no proxy": [post(P, proxy()), *refused_bodies(f"{P}/p"), get(f"{P}/p")],
    "bodies that are no toxic": [post(P, proxy()), *refused_bodies(T)],
    "bodies that change no toxic": [post(P, proxy()), post(T, toxic()), *refused_bodies(f"{T}/latency_downstream")],
    "fields of other kinds": [
        post(P, proxy(enabled="yes")),
        post(P, proxy(enabled=1)),
        post(P, proxy(enabled=None)),
        post(f"{P}/p", {"enabled": None}),
        post(f"{P}/p", {"enabled": "no"}),
        post(f"{P}/p", {"upstream": None}),
        post(f"{P}/p", {"listen": 5}),
        post(P, proxy(name="q", listen="127.0.0.1:{1}", unknown=1, toxics=[1])),
        post(P, {"NAME": "r", "Listen": "127.0.0.1:{2}", "uPstream": "127.0.0.1:1"}),
        get(P),
    ],
    "addresses to listen on": [
        post(P, proxy(name="a", listen="nowhere")),
        post(P, proxy(name="b", listen="127.0.0.1:", enabled=False)),
        post(P, proxy(name="c", listen="127.0.0.1:99999")),
        post(P, proxy(name="d", listen="127.0.0.1:-1")),
        post(P, proxy(name="e", listen="127.0.0.1:port")),
        post(P, proxy(name="f", listen="127.0.0.1:1:2")),
        post(P, proxy(name="g", listen="[::1")),
        post(P, proxy(name="h", listen="192.0.2.1:{0}")),
        post(P, proxy(name="i", listen="127.0.0.1:{taken}")),
        post(P, proxy(name="r", listen="localhost:{taken}")),
        post(P, proxy(name="m", listen="127.0.0.1:80]")),
        post(P, proxy(name="n", listen="[127.0.0.1]:{1}")),
        post(P, proxy(name="o", listen="[::1]x:80")),
        post(P, proxy(name="q", listen="127.0.0.1:+{2}")),
        get(P),
        post(P, proxy(name="j", listen="localhost:{0}")),
        get(P),
    ],
    "a disabled proxy takes any address": [
        post(P, proxy(listen="nowhere", enabled=False)),
        post(P, proxy(name="q", listen="", enabled=False)),
        post(P, proxy(name="r", upstream="nonsense", enabled=False)),
        get(P),
        post(f"{P}/r", {"enabled": True}),
        post(f"{P}/p", {"enabled": True}),
        get(P),
    ],
    "an upstream of any text": [
        post(P, proxy(upstream="nonsense")),
        post(f"{P}/p", {"upstream": "127.0.0.1:port"}),
        post(f"{P}/p", {"upstream": ""}),
        get(P),
    ],
    "changes of a proxy": [
        post(P, proxy()),
        post(f"{P}/p", {}),
        patch(f"{P}/p", {"upstream": "127.0.0.1:2"}),
        patch(f"{P}/p", {"listen": "127.0.0.1:{1}"}),
        patch(f"{P}/p", {"enabled": False}),
        patch(f"{P}/p", {"listen": "127.0.0.1:{2}"}),
        patch(f"{P}/p", {"enabled": True}),
        patch(f"{P}/p", {"listen": "localhost:{2}"}),
        patch(f"{P}/p", {"name": "other"}),
        patch(f"{P}/p", {"listen": "127.0.0.1:{taken}"}),
        get(f"{P}/p"),
        patch(f"{P}/p", {"listen": "nowhere"}),
        get(f"{P}/p"),
        patch(f"{P}/q", {"enabled": True}),
        delete(f"{P}/q"),
    ],
    "populate": [
        post("/populate", []),
        post("/populate", [proxy(), proxy(name="q", listen="127.0.0.1:{1}", enabled=False)]),
        post(T, toxic()),
        post("/populate", [proxy()]),
        post("/populate", [proxy(listen="localhost:{0}")]),
        get(P),
        post("/populate", [proxy(enabled=False)]),
        post("/populate", [proxy(upstream="127.0.0.1:2")]),
        post(
            "/populate",
            [
                proxy(upstream="127.0.0.1:2", enabled=False),
                proxy(name="q", upstream="127.0.0.1:3", listen="127.0.0.1:{1}"),
            ],
        ),
        get(P),
    ],
    "populate stops at the first failure": [
        post(
            "/populate",
            [proxy(), proxy(name="q", listen="127.0.0.1:{taken}"), proxy(name="r", listen="127.0.0.1:{1}")],
        ),
        get(P),
        post("/populate", [proxy(name="s", listen="127.0.0.1:{2}"), proxy(listen="nowhere")]),
        get(P),
        post("/populate", [proxy(name="s", listen="127.0.0.1:{taken}")]),
        get(P),
    ],
    "toxics": [
        post(P, proxy()),
        post(T, toxic()),
        post(T, toxic()),
        post(T, toxic(name="mine", stream="upstream", toxicity=0.5, attributes={"latency": 5, "jitter": 2})),
        post(T, toxic("bandwidth", stream="UPSTREAM")),
        post(T, toxic("timeout", stream="Downstream")),
        get(T),
        get(f"{T}/mine"),
        get(f"{T}/none"),
        patch(f"{T}/mine", {"attributes": {"latency": 7}}),
        post(f"{T}/mine", {"toxicity": 0.25}),
        patch(f"{T}/none", {"toxicity": 1}),
        delete(f"{T}/none"),
        delete(f"{T}/mine"),
        get(f"{P}/p"),
        post("/reset"),
        get(f"{P}/p"),
        post("/proxies/q/toxics", toxic()),
        get("/proxies/q/toxics"),
    ],
    "every toxic with what it has by itself": [
        post(P, proxy()),
        *(
            post(T, toxic(kind))
            for kind in ("bandwidth", "latency", "limit_data", "noop", "reset_peer", "slicer", "slow_close", "timeout")
        ),
        get(T),
    ],
    "attributes": [
        post(P, proxy()),
        post(T, toxic(attributes={"latency": "5"})),
        post(T, toxic(attributes={"latency": 5.5})),
        post(T, '{"type": "latency", "attributes": {"latency": 5.0}}'),
        post(T, '{"type": "latency", "attributes": {"latency": 1e3}}'),
        post(T, toxic(attributes={"latency": True})),
        post(T, toxic(attributes={"latency": 2**63})),
        post(T, toxic(attributes=[])),
        post(T, toxic(attributes=5)),
        post(T, toxic(name="a", attributes=None)),
        post(T, toxic(name="b", attributes={"latency": None, "jitter": 4})),
        post(T, toxic(name="c", attributes={"unknown": 5, "Latency": 9})),
        post(T, toxic(name="d", attributes={"latency": -5})),
        post(T, toxic(name="e", attributes={"latency": 2**63 - 1})),
        post(T, toxic("slicer", name="f", attributes={"average_size": 5, "size_variation": 50})),
        post(T, toxic("bandwidth", name="g", attributes={"rate": -1})),
        patch(f"{T}/a", {"attributes": {"latency": "5"}}),
        patch(f"{T}/a", {"attributes": {"unknown": 5}}),
        patch(f"{T}/a", {"attributes": None}),
        patch(f"{T}/a", {"toxicity": "all"}),
        get(T),
    ],
    "attributes that are no struct": [
        post(P, proxy()),
        post(T, toxic(name="a")),
        patch(f"{T}/a", {"attributes": []}),
        patch(f"{T}/a", {"attributes": "x"}),
        patch(f"{T}/a", {"toxicity": []}),
        post(T, toxic("slicer", attributes={"average_size": "5"})),
        post(T, toxic("reset_peer", attributes={"timeout": "5"})),
        post(T, toxic("slow_close", attributes={"delay": [], "other": 5})),
        post(T, toxic("limit_data", attributes={"bytes": {}})),
        post(T, toxic("noop", attributes={"any": "thing"})),
        post("/populate", [5]),
        post("/populate", [proxy(), {"name": 5}]),
        post("/populate", [{"enabled": "x"}]),
        post("/populate", [None]),
        get(P),
    ],
    "toxicity": [
        post(P, proxy()),
        post(T, toxic(name="a", toxicity=0.1)),
        post(T, toxic(name="b", toxicity=0)),
        post(T, toxic(name="c", toxicity=1.0)),
        post(T, toxic(name="d", toxicity=2)),
        post(T, toxic(name="e", toxicity=-1)),
        post(T, toxic(name="f", toxicity=None)),
        post(T, toxic(name="g", toxicity="1")),
        post(T, toxic(name="h", toxicity=1 / 3)),
        post(T, toxic(name="i", toxicity=1e-9)),
        post(T, '{"type": "latency", "name": "j", "toxicity": 1e300}'),
        patch(f"{T}/a", {"toxicity": 0.7}),
        get(T),
    ],
    "types and streams": [
        post(P, proxy()),
        post(T, {}),
        post(T, toxic("unknown")),
        post(T, toxic("Latency")),
        post(T, toxic(stream="sideways")),
        post(T, toxic(stream="")),
        post(T, toxic(stream=None)),
        post(T, toxic("unknown", stream="sideways")),
        post(T, toxic(name=5)),
        post(T, toxic(name=None)),
        post(T, toxic(5)),
    ],
    "reset enables every proxy": [
        post(P, proxy(enabled=False)),
        post(P, proxy(name="q", listen="127.0.0.1:{1}")),
        post("/proxies/q/toxics", toxic()),
        post("/reset"),
        get(P),
        post("/reset", "no JSON"),
    ],
    "paths and methods that are not there": [
        get("/"),
        get("/nowhere"),
        delete(P),
        Call(method="PUT", path=P, body={}),
        get("/metrics"),
        get("/reset"),
        get("/populate"),
        post("/version"),
        get(f"{P}/"),
        get("/proxies/p/nothing"),
        Call(method="HEAD", path=P),
        Call(method="OPTIONS", path=P),
        get("//proxies"),
        get("/proxies/../version?x=%20y"),
        get("/proxies/p/../a%20b/"),
        get("/x/../%0d%0aInjected:%20yes"),
        get("/x/../%C3%A9%E2%82%AC%25%3F%23"),
        get("/x/../%22%3C%3E%5B%5D%5E%60%7B%7C%7D!$&'()*+,;=:@~"),
    ],
    "browsers are refused": [Call(method="GET", path=P, headers=(("User-Agent", "Mozilla/5.0 (X11)"),))],
    "bodies in chunks": [
        Call(method="POST", path=P, body=proxy(), is_chunked=True),
        get(P),
    ],
    "a query is not a part of the path": [get(f"{P}?x=1"), get("/version?y")],
}


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    """Some that are free, and one that another listener has."""
    with ExitStack() as stack:
        taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        free = {str(number): free_port() for number in range(PORTS)}
        yield {**free, "taken": taken.getsockname()[1]}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_both_answer_the_same(
    name: str, real_server: RunningServer, drop_in_server: RunningServer, ports: dict[str, int]
) -> None:
    wanted = [_said(real_server, call, ports) for call in CONVERSATIONS[name]]
    _clear(real_server)
    found = [_said(drop_in_server, call, ports) for call in CONVERSATIONS[name]]
    _clear(drop_in_server)
    assert found == wanted


def _said(server: RunningServer, call: Call, ports: dict[str, int]) -> tuple[str, Seen]:
    """The call itself stands beside what was seen, so that a difference names it."""
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
    try:
        body = _body(call, ports)
        headers = {**dict(call.headers), **({"Content-Type": "application/json"} if body is not None else {})}
        given = iter([body[:5], body[5:]]) if call.is_chunked and body is not None else body
        connection.request(call.method, call.path, given, headers, encode_chunked=call.is_chunked)
        answer = connection.getresponse()
        text = answer.read().decode()
        return f"{call.method} {call.path} {body!r}", Seen(
            answer.status,
            answer.getheader("Content-Type"),
            answer.getheader("Location"),
            bool(re.fullmatch("[a-v0-9]{20}", answer.getheader("X-Toxiproxy-Request-Id") or "")),
            _unordered(text),
        )
    finally:
        connection.close()


def _body(call: Call, ports: dict[str, int]) -> bytes | None:
    if call.body is None:
        return None
    text = call.body if isinstance(call.body, str) else json.dumps(call.body)
    for name, port in ports.items():
        text = text.replace("{" + name + "}", str(port))
    return text.encode()


def _unordered(text: str) -> str:
    """The original lists proxies in the order of a Go map, its version differs by how it was built, and it shows an
    empty `Logger` of each proxy, which is a field of its own code."""
    try:
        value = json.loads(text, object_hook=lambda found: {key: found[key] for key in found if key != "Logger"})
    except ValueError:
        return text
    if isinstance(value, dict) and list(value) == ["version"]:
        return "version"
    return json.dumps(value, sort_keys=True) + ("\n" if text.endswith("\n") else "")


def _clear(server: RunningServer) -> None:
    client = server.client()
    for name in client.proxies():
        client.delete(name)
    client.close()
