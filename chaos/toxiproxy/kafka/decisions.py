"""Decides what the Kafka toxics of a proxy do to the exchanges of one connection, and edits frames. The tap (tap.py)
carries it out.

It knows no timers and no sockets. Shown by tests/chaos/test_chaos_kafka_toxics.py and test_chaos_kafka_edits.py.
"""

from __future__ import annotations

import random

from chaos.toxiproxy.kafka import alterations, edits, fetch_sessions, matching, produce, refusals, subjects
from chaos.toxiproxy.kafka.apis import API_NAMES
from chaos.toxiproxy.kafka.exchange import Exchange
from chaos.toxiproxy.kafka.fetch_sessions import FetchSession
from chaos.toxiproxy.kafka.fields import MalformedFrame
from chaos.toxiproxy.kafka.messages import FETCH, decode_request
from chaos.toxiproxy.kafka.settings import KafkaSettings
from chaos.toxiproxy.toxic import Toxic

_ALTER, _CLOSE, _SILENCE = "kafka_alter_response", "kafka_close_connection", "kafka_silence"
_DECIDED_EARLY = (
    "kafka_delay_response", "kafka_edit_response", "kafka_hide_topic", "kafka_cut_frame", _ALTER, _CLOSE, _SILENCE,
)  # fmt: skip
END_TXN, END_TXN_FLEXIBLE = 26, 3  # API key, and the version from which its header has tags


class Decisions:
    def __init__(self, settings: KafkaSettings, rng: random.Random) -> None:
        self._settings = settings
        self._rng = rng
        self._fetching = FetchSession()
        # id() of a toxic -> the toxic, and whether it acts on this connection. The toxic is kept here, because Python
        # may give the id of a removed one to a new one.
        self._draws: dict[int, tuple[Toxic, bool]] = {}

    def scope(
        self, header: produce.RequestHeader, request: produce.ProduceRequest | None, frame: bytes
    ) -> matching.Scope | None:
        """What the request is about. None if no toxic acts on this API."""
        api = API_NAMES.get(header.api_key)
        aimed = [toxic for toxic in self._settings.toxics if toxic.text("api") == api]
        if api is None or not aimed:
            return None
        if request is not None:
            return matching.Scope(
                api=api,
                client_id=request.client_id,
                partitions=frozenset((batch.topic, batch.partition) for batch in request.batches),
                transactional_ids=frozenset((request.transactional_id,) if request.transactional_id else ()),
                request=request,
            )
        try:
            client_id = produce.read_client_id(frame)
            if header.api_key == FETCH:
                return self._scope_of_fetch(api, client_id, header, frame)
            if not any(map(matching.selects_by_content, aimed)):
                return matching.Scope(api=api, client_id=client_id)
            message, subject = subjects.read_subject(frame, self._settings.names.by_id)
        except MalformedFrame:
            return None
        return matching.Scope(
            api=api,
            client_id=client_id,
            partitions=subject.partitions,
            groups=subject.groups,
            transactional_ids=subject.transactional_ids,
            names_all=subject.names_all,
            request=message,
        )

    def _scope_of_fetch(self, api: str, client_id: str, header: produce.RequestHeader, frame: bytes) -> matching.Scope:
        """Within a session a request means more than it names. So each one is decoded while a toxic aims at Fetch."""
        message = self._fetching.asked(decode_request(frame), header.correlation_id)
        return matching.Scope(
            api=api,
            client_id=client_id,
            partitions=fetch_sessions.partitions_of(message, self._settings.names.by_id),
            names_all=not self._fetching.is_known(message),
            request=message,
        )

    def answered(self, exchange: Exchange, frame: bytes) -> None:
        """The broker has answered, before anything of it is edited."""
        if exchange.header.api_key == FETCH and exchange.scope is not None:
            self._fetching.answered(frame, exchange.header.api_version, exchange.header.correlation_id)

    def prepare(self, exchange: Exchange) -> None:
        """Decide what happens to the response. This is done when the request arrives, because the toxics count requests
        in the order of their arrival."""
        assert exchange.scope is not None
        edits: list[Toxic] = []
        for toxic in self._settings.toxics:
            kind = toxic.spec.type
            if kind not in _DECIDED_EARLY or (kind in (_CLOSE, _SILENCE) and toxic.text("when") == "before"):
                continue
            if not self._acts_here(toxic) or not self._takes(toxic, exchange):
                continue
            exchange.acted.append(toxic)
            if kind == "kafka_delay_response":
                exchange.delay_ms = max(exchange.delay_ms, toxic.number("delay_ms"))
            elif kind == "kafka_cut_frame":
                exchange.cut = toxic
            elif kind == _CLOSE:
                exchange.is_closing = True
            elif kind == _SILENCE:
                exchange.silence = toxic
            else:
                edits.append(toxic)
        exchange.edits = tuple(edits)

    def try_hold(self, exchange: Exchange) -> Toxic | None:
        """The toxic that holds this request back."""
        return self._try_take("kafka_hold_request", exchange)

    def try_refuse(self, exchange: Exchange, frame: bytes) -> tuple[Toxic, bytes] | None:
        """The toxic that refuses this request in the broker's place, and the refusal."""
        toxic = self._try_take("kafka_refuse_request", exchange)
        if toxic is None:
            return None
        code = toxic.number("error_code")
        if exchange.request is not None:
            return toxic, produce.refusal_frame(exchange.request, code)
        assert exchange.scope is not None
        try:
            refusal = refusals.refusal_frame(frame, code, exchange.scope.client_id, request=exchange.scope.request)
        except MalformedFrame:
            self._give_back(exchange, toxic, "unreadable")
            return None
        if refusal is None:
            self._give_back(exchange, toxic, "no_place")
            return None
        return toxic, refusal

    def try_close(self, exchange: Exchange) -> bool:
        """Whether a toxic closes the connection instead of forwarding this request."""
        return self._try_take(_CLOSE, exchange, when="before") is not None

    def try_silence(self, exchange: Exchange) -> Toxic | None:
        """The toxic because of which this request is not forwarded for now."""
        return self._try_take(_SILENCE, exchange, when="before")

    def try_drop(self, exchange: Exchange) -> bool:
        """Whether a toxic drops this response. For Produce it drops only the response to a successful append, because
        it would prove nothing to drop an error."""
        if exchange.is_closing:
            return True
        if any(result.error_code for result in exchange.results.values()):
            return False
        return self._try_take("kafka_drop_response", exchange) is not None

    def corrupted(self, exchange: Exchange, frame: bytes) -> bytes:
        assert exchange.request is not None
        if not exchange.request.batches or self._try_take("kafka_corrupt_batch", exchange) is None:
            return frame
        position = exchange.request.records_end - 1  # the last byte of the last batch, which is part of a record
        return frame[:position] + bytes([frame[position] ^ 1]) + frame[position + 1 :]

    def edited(self, exchange: Exchange, frame: bytes) -> bytes:
        for toxic in exchange.edits:
            try:
                frame = self._edited(toxic, exchange, frame)
            except edits.NothingChanged:
                self._give_back(exchange, toxic, "unchanged")
            except MalformedFrame:
                self._give_back(exchange, toxic, "unreadable")
            else:
                is_error = toxic.spec.type == "kafka_edit_response" and toxic.number("error_code") > 0
                exchange.is_edited |= is_error
                exchange.is_altered |= not is_error
        return frame

    def _edited(self, toxic: Toxic, exchange: Exchange, frame: bytes) -> bytes:
        api_key, version = exchange.header.api_key, exchange.header.api_version
        names = self._settings.names.by_id
        target = edits.Target(
            topic=toxic.text("topic"),
            partition=toxic.number("partition"),
            group=toxic.text("group"),
            transactional_id=toxic.text("transactional_id"),
        )
        if toxic.spec.type == _ALTER:
            return alterations.altered_response(
                frame, api_key=api_key, version=version, names=names, how=toxic.text("how"), target=target
            )
        is_hiding = toxic.spec.type == "kafka_hide_topic"
        return edits.edited_response(
            frame,
            api_key=api_key,
            version=version,
            names=names,
            error_code=-1 if is_hiding else toxic.number("error_code"),
            throttle_ms=-1 if is_hiding else toxic.number("throttle_ms"),
            target=target,
            is_hiding=is_hiding,
        )

    def _try_take(self, kind: str, exchange: Exchange, *, when: str = "") -> Toxic | None:
        """The first toxic of this kind, and with this `when`, that acts on the exchange."""
        if exchange.scope is None:
            return None
        for toxic in self._settings.of_type(kind):
            if when and toxic.text("when") != when:
                continue
            if self._acts_here(toxic) and self._takes(toxic, exchange):
                exchange.acted.append(toxic)
                return toxic
        return None

    def _takes(self, toxic: Toxic, exchange: Exchange) -> bool:
        assert exchange.scope is not None
        return matching.try_take(toxic, exchange.scope, self._settings.turns, exchange.acted)

    def _acts_here(self, toxic: Toxic) -> bool:
        """Toxicity is drawn once for each connection."""
        if id(toxic) not in self._draws:
            self._draws[id(toxic)] = (toxic, self._rng.random() < toxic.toxicity)
        return self._draws[id(toxic)][1]

    def _give_back(self, exchange: Exchange, toxic: Toxic, why: str) -> None:
        """Nothing was done, so nothing is counted but `why`."""
        matching.give_back(toxic, why, self._settings.turns)
        exchange.acted.remove(toxic)


def count_late_answer(toxic: Toxic, header: produce.RequestHeader, frame: bytes) -> None:
    """Count a late answer. EndTxn has one error code for the whole request, and its answers are counted by it, because
    it matters whether the broker accepted the request."""
    name = "answered"
    if header.api_key == END_TXN:
        position = 12 + (header.api_version >= END_TXN_FLEXIBLE)  # length, correlation id, tags, throttle time
        name = f"answered with error {int.from_bytes(frame[position : position + 2], 'big', signed=True)}"
    toxic.counters[name] = toxic.counters.get(name, 0) + 1
