"""The keys that verify signed tokens, from `sasl.oauthbearer.jwks.endpoint.url`: http, https or file.

They are read at the start, every `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and soon after a token with an unknown
key. If they cannot be read, the old keys stay, and a log line says so.
Shown by tests/broker_node/test_node_signing_keys.py and test_node_jwks_http.py.
"""

from __future__ import annotations

import asyncio
import http.client
import urllib.request
from collections.abc import Mapping

from broker.node.process.logs import Logger
from broker.security.tokens import Key

READ_TIMEOUT_S = 10.0
RETRY_S = 10.0  # the wait after a failure, and the minimum time between two reads
KEYS_BYTES_MAX = 1 << 20


class SigningKeys:
    def __init__(self, url: str, *, refresh_ms: int, logger: Logger) -> None:
        self._url, self._refresh_s, self._logger = url, refresh_ms / 1000, logger
        self._asked = asyncio.Event()
        self.by_id: Mapping[str, Key] = {}

    def unknown(self) -> None:
        """A token names an unknown key: the keys must be read again."""
        self._asked.set()

    async def run(self) -> None:
        """Reads the keys until cancelled."""
        while True:
            self._asked.clear()  # before the read: a key that is asked for from here on may have come after it
            is_read = await self._read()
            await asyncio.sleep(RETRY_S)
            if is_read:
                try:
                    async with asyncio.timeout(max(0.0, self._refresh_s - RETRY_S)):
                        await self._asked.wait()
                except TimeoutError:
                    pass

    async def _read(self) -> bool:
        try:
            self.by_id = await asyncio.to_thread(self._keys)
        except (OSError, ValueError, http.client.HTTPException) as error:  # caught, because it would end the broker
            self._logger.warning("keys_not_read", url=self._url, cause=repr(str(error)))
            return False
        return True

    def _keys(self) -> Mapping[str, Key]:
        """In a thread, because the address may be slow, and so is the first import of the package behind the keys."""
        from broker.security.signatures import parse_jwks

        return parse_jwks(self._fetch())

    def _fetch(self) -> bytes:
        # the operator has configured this address
        with urllib.request.urlopen(self._url, timeout=READ_TIMEOUT_S) as answer:
            content: bytes = answer.read(KEYS_BYTES_MAX + 1)
        if len(content) > KEYS_BYTES_MAX:
            raise ValueError(f"more than {KEYS_BYTES_MAX} bytes")
        return content
