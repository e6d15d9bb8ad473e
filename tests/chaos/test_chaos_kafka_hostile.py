"""The proxies' reading of Kafka behind which a broker says whatever it likes: nothing is raised, and the work and the
memory that it costs are bounded."""

from __future__ import annotations

import itertools
import random
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.wire.apis import APIS, ApiKey
from broker.wire.codec import encode_response
from broker.wire.messages import response_type
from chaos.toxiproxy.kafka import addresses, produce
from chaos.toxiproxy.kafka.apis import API_NAMES, SELECTORS
from chaos.toxiproxy.kafka.edits import edited_response
from chaos.toxiproxy.kafka.fields import ITEMS_MAX, MalformedFrame, Reader, Writer
from chaos.toxiproxy.kafka.messages import EDITED_BYTES_MAX
from chaos.toxiproxy.kafka.settings import KafkaSettings
from chaos.toxiproxy.kafka.tap import KafkaTap
from chaos.toxiproxy.kafka.wire_log import WireLog
from chaos.toxiproxy.lookup import start_embedded
from chaos.toxiproxy.states import ProxySpec
from chaos.toxiproxy.toxic import AttributeValue, Toxic
from chaos.toxiproxy.toxics import (
    kafka_alter_response,
    kafka_close_connection,
    kafka_cut_frame,
    kafka_delay_response,
    kafka_drop_response,
    kafka_edit_response,
    kafka_hide_topic,
    kafka_hold_request,
    kafka_refuse_request,
    kafka_silence,
)
from harness.clusters.base import Address
from harness.clusters.requests.probe import BrokerProbe
from tests.amount import some
from tests.chaos import kafka_frames as kf
from tests.chaos.conftest import Upstream
from tests.harness.hostile_broker import MANNERS, HostileBroker, speaks_nonsense
from tests.harness.nonsense import nonsense

KINDS = (
    kafka_alter_response, kafka_close_connection, kafka_cut_frame, kafka_delay_response, kafka_drop_response,
    kafka_edit_response, kafka_hide_topic, kafka_hold_request, kafka_refuse_request, kafka_silence,
)  # fmt: skip
MAPPED = {("127.0.0.1", 9092): ("127.0.0.1", 19092), ("t", 0): ("proxy", 1)}
VALUES = {"topic": ("", "t", "orders"), "group": ("", "", "g"), "transactional_id": ("", "", "g")}
CHOICES = {
    "when": ("before", "after"),
    "at_heal": ("release", "close", "stay"),
    "how": ("missing", "reversed", "empty", "older_epoch"),
}
CASES = [(key, version) for key, api in APIS.items() for version in range(api.min_version, api.max_version + 1)]
SEEDS = range(3)


class Control:
    """Timers run at once when `run` is called; what is sent is thrown away."""

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []

    def emit(self, data: bytes) -> None: ...
    def forward_late(self, data: bytes) -> None: ...
    def cut_client(self) -> None: ...
    def read_client(self, is_reading: bool) -> None: ...
    def read_broker(self, is_reading: bool) -> None: ...
    def close(self) -> None: ...
    def drained(self) -> None: ...

    def call_later_ms(self, delay_ms: float, action: Callable[[], None]) -> Callable[[], object]:
        self.later.append(action)
        return lambda: None

    def run(self) -> None:
        while self.later:
            self.later.pop()()


def toxic_of(module: Any, api: str, rng: random.Random) -> Toxic | None:
    attributes: dict[str, AttributeValue] = {attribute.name: attribute.default for attribute in module.SPEC.attributes}
    wanted = next(attribute for attribute in module.SPEC.attributes if attribute.name == "api")
    if api not in wanted.choices:
        return None
    attributes |= {"api": api, "count": 0}
    for selector, values in VALUES.items():
        if selector in SELECTORS[api]:
            attributes[selector] = rng.choice(values)
    for name, choices in CHOICES.items():
        if name in attributes:
            attributes[name] = rng.choice(choices)
    if "error_code" in attributes:
        attributes["error_code"] = rng.choice((-1, 0, 3, 999))
    if "throttle_ms" in attributes:
        attributes["throttle_ms"] = rng.choice((-1, 0, 5))
    return Toxic(name="t", spec=module.SPEC, stream="downstream", toxicity=1.0, attributes=attributes)


def request_frame(api_key: int, version: int, correlation_id: int) -> bytes:
    if api_key == ApiKey.PRODUCE:
        return kf.produce_frame(version, correlation_id)
    body = struct.pack(">hhih", api_key, version, correlation_id, -1) + b"\0" * 40
    return struct.pack(">i", len(body)) + body


def answers(api_key: int, version: int, correlation_id: int, rng: random.Random) -> list[bytes]:
    """Nonsense in good form, cut, changed, and bytes of no form."""
    good = b"".join(
        bytes(part)
        for part in encode_response(api_key, version, correlation_id, nonsense(response_type(api_key, version), rng))
    )
    cut = bytearray(good[: rng.randrange(4, len(good) + 1)])
    cut[:4] = struct.pack(">i", len(cut) - 4)
    changed = bytearray(good)
    for _ in range(rng.randrange(1, 6)):
        if len(changed) > 8:
            changed[rng.randrange(8, len(changed))] = rng.choice((0, 1, 127, 128, 255))
    body = struct.pack(">i", correlation_id) + rng.randbytes(rng.randrange(60))
    return [good, bytes(changed), bytes(cut), struct.pack(">i", len(body)) + body, rng.randbytes(rng.randrange(1, 60))]


@pytest.mark.parametrize("api_key", sorted({int(key) for key, _ in CASES}))
def test_no_answer_ends_the_tap(api_key: int, tmp_path: Path) -> None:
    versions = [version for key, version in CASES if key == api_key]
    for version, seed in itertools.product(some(versions, fast=2), SEEDS):
        rng = random.Random(f"{seed} {api_key} {version}")
        toxics = [toxic_of(module, API_NAMES.get(api_key, ""), rng) for module in KINDS if rng.random() < 0.4]
        settings = KafkaSettings(
            proxy="p", wire_log=WireLog(tmp_path / f"{version}-{seed}.jsonl"), names=produce.TopicNames(),
            is_logging_asked=True, toxics=[toxic for toxic in toxics if toxic is not None],
            rewrites=MAPPED if rng.random() < 0.7 else {},
        )  # fmt: skip
        for at in range(5):
            control = Control()
            tap = KafkaTap(settings, 1, control, rng)
            tap.forward(request_frame(api_key, version, 7))
            answer = answers(api_key, version, 7, rng)[at]
            for start in range(0, len(answer), 50):
                tap.backward(answer[start : start + 50])
            control.run()
            if rng.random() < 0.5:
                settings.toxics = []
                tap.toxics_changed()
                control.run()
            tap.closed()
        settings.wire_log.close()


@pytest.mark.parametrize("claimed", [ITEMS_MAX + 1, 2**32 - 1])
def test_the_work_for_an_answer_is_bounded_whatever_it_counts(claimed: int) -> None:
    """Tags of two bytes each: a frame of 100 MB held the event loop, and with it every fault, for a minute."""
    count = Writer(is_compact=True)
    count.varint(claimed)
    body = count.frame()[4:] + bytes(2 * (ITEMS_MAX + 1))
    frame = struct.pack(">ii", 4 + len(body), 7) + body
    reader = Reader(frame, position=8, is_compact=True)
    with pytest.raises(MalformedFrame, match="items"):
        reader.skip_tags()
    assert reader.position < 16, "nothing was walked"
    for key, version in ((ApiKey.METADATA, 12), (ApiKey.FIND_COORDINATOR, 6), (ApiKey.PRODUCE, 12), (ApiKey.FETCH, 17)):
        with pytest.raises(MalformedFrame, match="items"):
            addresses.rewritten(frame, key, version, MAPPED)


def test_an_answer_to_be_edited_is_not_decoded_whatever_its_size() -> None:
    frame = struct.pack(">ii", EDITED_BYTES_MAX + 1, 7) + bytes(EDITED_BYTES_MAX)
    with pytest.raises(MalformedFrame, match="bytes"):
        edited_response(frame, api_key=ApiKey.METADATA, version=12, names={}, error_code=3)


def test_items_are_counted_over_the_whole_answer() -> None:
    """Each array within the bound, and one inside the other: 250,000 times 250,000."""
    reader = Reader(struct.pack(">i", ITEMS_MAX - 1) * 3)
    assert reader.count() == ITEMS_MAX - 1
    with pytest.raises(MalformedFrame, match="items"):
        reader.count()


def test_names_that_no_topic_can_have_are_not_kept() -> None:
    names = produce.TopicNames()
    names.learn(b"1" * 16, "x" * 250)
    names.learn(b"2" * 16, "x" * 249)
    assert list(names.by_id.values()) == ["x" * 249]


PEAK_BYTES_MAX = (
    700 << 20
)  # two answers of up to 128 MiB on their way, each held once by the reading and once by the writing


@pytest.mark.slow
def test_hostile_brokers_behind_proxies_disturb_no_other_proxy(tmp_path: Path, echo_upstream: Upstream) -> None:
    log = tmp_path / "log.txt"
    server = start_embedded(wire_log=tmp_path / "wire.jsonl", log_path=log, seed=7)
    client = server.client()
    try:
        other = client.create(ProxySpec(name="other", upstream=echo_upstream.address))
        for number, manner in enumerate([*MANNERS, *(speaks_nonsense(seed) for seed in range(5))]):
            polite = frozenset({int(ApiKey.API_VERSIONS)}) if number % 2 else frozenset()
            with HostileBroker(manner, polite=polite) as broker:
                name = f"hostile-{number}"
                shown = {broker.address: "127.0.0.1:1"} if number % 3 else {}
                made = client.create(
                    ProxySpec(name=name, upstream=broker.address, kafka_log=True, kafka_addresses=shown)
                )
                client.add_toxic(
                    name, "kafka_edit_response", {"api": "Metadata", "error_code": 5, "count": 0}, name="edit"
                )
                host, _, port = made.listen.rpartition(":")
                probe = BrokerProbe(Address(host=host, port=int(port)), timeout_s=0.3)
                probe.metadata("t")
                probe.end_offset("t", 0)
                probe.broker_addresses()
                probe.close()
                passes(other.listen)
                client.delete(name)
        assert server.process is not None
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        peak_bytes = next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))
        assert peak_bytes < PEAK_BYTES_MAX
    finally:
        client.close()
        server.stop()
    told = log.read_text()
    assert "Traceback" not in told
    assert "exception" not in told.lower()


def passes(listen: str) -> None:
    host, _, port = listen.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"ping")
        assert connection.recv(4) == b"ping"
