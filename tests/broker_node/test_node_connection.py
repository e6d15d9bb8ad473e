"""One connection without a socket: which requests are handled when, whatever order bytes and answers come in."""

from __future__ import annotations

import asyncio
from typing import Any

from broker.node.net.connection import IN_FLIGHT_REQUESTS_MAX, Connection
from broker.node.net.memory import RequestMemory
from broker.node.net.requests import Request
from broker.node.net.unread_answers import UnreadAnswers
from broker.node.process.logs import Logger
from broker.wire.apis import ApiKey, Listener
from broker.wire.codec import encode_request
from broker.wire.messages import request, response


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.is_paused = False

    def write(self, data: Any) -> None:
        return

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


def test_frames_that_lay_behind_a_full_connection_are_handled_once_answers_made_room() -> None:
    """The answer is ready, but not sent yet, when the next bytes come: sending it makes room while they are handled.
    A frame forgotten then is found only when more bytes come, and a client that waits for it sends none."""

    async def run() -> None:
        taken: list[Request] = []
        connection = Connection(
            listener=Listener.CLIENT,
            listener_name="EXTERNAL",
            dispatch=taken.append,
            logger=Logger(0),
            request_bytes_max=1_000_000,
            on_open=lambda _: True,
            on_close=lambda _: None,
            memory=RequestMemory(limit_bytes=-1),
            unread=UnreadAnswers(limit_bytes=1 << 30, on_end=lambda *_: None),
        )
        transport = Transport()
        connection.connection_made(transport)
        message = request(ApiKey.METADATA, 9, topics=None)
        frame = b"".join(encode_request(ApiKey.METADATA, 9, 1, "client", message))

        def feed(data: bytes) -> None:
            room = connection.get_buffer(-1)
            room[: len(data)] = data
            connection.buffer_updated(len(data))

        feed(frame * (IN_FLIGHT_REQUESTS_MAX - 1))
        taken[0].respond(response(ApiKey.METADATA, 9, brokers=[], topics=[]))
        feed(frame * 2)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(taken) == IN_FLIGHT_REQUESTS_MAX + 1
        assert transport.is_paused
        for each in taken[1:]:
            each.respond(response(ApiKey.METADATA, 9, brokers=[], topics=[]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not transport.is_paused

    asyncio.run(run())
