"""A channel when its connection goes away at the worst moment: requests fail, the broker lives."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvloop

from broker.node.net import channel as module
from broker.node.net.channel import Channel
from broker.node.settings.config import Address
from broker.wire.messages import Message

SILENT: Any = type("Silent", (), {"warning": lambda *_, **__: None})()


@pytest.mark.parametrize("is_a_turn_later", [False, True])
def test_a_request_in_the_turn_in_which_a_late_dial_is_given_up_fails_and_does_not_raise(
    is_a_turn_later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection stands, its time limit strikes before the dial has returned. Whoever writes to a connection that
    uvloop has closed gets a RuntimeError, which ended a broker under load: the channel must have let go of it by then.
    """
    answers: list[Message | None] = []
    was_written: list[bool] = []
    raised: list[RuntimeError] = []

    class Late(Channel):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            loop = asyncio.get_running_loop()
            limits[-1].reschedule(loop.time())
            if is_a_turn_later:
                loop.call_soon(self.ask)
            else:
                self.ask()

        def ask(self) -> None:
            was_written.append(self._transport is not None)
            try:
                self.exchange(lambda number, client: [b"x"], _never, timeout_ms=5_000, answer=answers.append)
            except RuntimeError as error:
                raised.append(error)

    def _never(frame: memoryview) -> Message:
        raise AssertionError("nobody answers")

    def limit(seconds: float) -> asyncio.Timeout:
        limits.append(own_timeout(seconds))
        return limits[-1]

    async def scene() -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        channel = Late(name="peer", address=lambda: Address(host="127.0.0.1", port=port), client_id="us", logger=SILENT)
        channel.exchange(lambda number, client: [b"x"], _never, timeout_ms=5_000, answer=answers.append)
        async with own_timeout(5):
            while len(answers) < 2:
                await asyncio.sleep(0.01)
        channel.close()
        server.close()

    limits: list[asyncio.Timeout] = []
    own_timeout = asyncio.timeout
    monkeypatch.setattr(module.asyncio, "timeout", limit)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scene())
    assert was_written == [True], "the second request met a connection"
    assert raised == []
    assert answers == [None, None]
