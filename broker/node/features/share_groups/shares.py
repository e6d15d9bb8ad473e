"""The share partitions that this broker leads, and the sessions of the members that read them (KIP-932).

A share partition is loaded when a member first fetches it. It is dropped when the leadership moves, when it is fenced,
or when its group has no session here any more. If the connection of a session is gone, the session ends, and its
records are offered again. The handlers use it; the rules are in delivery/.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from broker.controller.image import MetadataImage
from broker.node.features.share_groups.delivery.sessions import ShareSession, ShareSessions
from broker.node.features.share_groups.group_settings import GroupSettings, group_settings
from broker.node.features.share_groups.live_share import LiveShare, Told
from broker.node.features.share_groups.persister import Persister, Place
from broker.node.process.logs import Logger
from broker.node.replicas.partitions import Partitions
from broker.node.settings.sections.shares import ShareSettings
from broker.wire.errors import ErrorCode

SWEEP_MS = 500  # how soon the records of a lost connection are offered again
SHARES_MAX = 20_000  # share partitions on this broker; more are refused until some are dropped
_Key: TypeAlias = tuple[str, Place]


class Shares:
    def __init__(
        self,
        *,
        settings: ShareSettings,
        partitions: Partitions,
        persister: Persister,
        image: Callable[[], MetadataImage],
        logger: Logger,
        spawn: Callable[..., object],
    ) -> None:
        self._settings, self._partitions, self.persister = settings, partitions, persister
        self._image, self._logger, self._spawn = image, logger, spawn
        self.sessions = ShareSessions(sessions_max=settings.group_share_max_share_sessions)
        self._shares: dict[_Key, LiveShare] = {}
        self._failed: dict[_Key, ErrorCode] = {}  # why loading failed; each error is told once
        self._is_sweeping = False
        self._is_full = False  # is it logged that there are SHARES_MAX?

    def settings(self, group_id: str) -> GroupSettings:
        return group_settings(self._settings, self._image().group_configs.get(group_id, {}))

    # -- share partitions ----------------------------------------------------------------------------------------------

    def get(self, group_id: str, place: Place) -> LiveShare | ErrorCode:
        """The share partition, which may still be loading. Or an error: this broker does not lead it, or it could not
        be loaded."""
        key = (group_id, place)
        live = self._shares.get(key)
        if live is not None and live.is_current:
            return live
        if live is not None:
            self._drop(live)
        failed = self._failed.pop(key, None)
        if failed is not None:
            return failed
        return self._begin(group_id, place)

    def _begin(self, group_id: str, place: Place) -> LiveShare | ErrorCode:
        name = self._image().topic_names.get(place[0])
        hosted = None if name is None else self._partitions.get(name, place[1])
        if name is None:
            return ErrorCode.unknown_topic_id
        if hosted is None and self._image().partition(name, place[1]) is None:
            return ErrorCode.unknown_topic_or_partition
        if hosted is None and self._partitions.is_offline(name, place[1]):
            return ErrorCode.kafka_storage_error
        if hosted is None or not hosted.replica.is_leader or hosted.topic_id != place[0]:
            return ErrorCode.not_leader_or_follower
        if len(self._shares) >= SHARES_MAX:
            if not self._is_full:
                self._is_full = True
                self._logger.warning("share_partitions_full", limit=SHARES_MAX, group=group_id, topic=name)
            return ErrorCode.kafka_storage_error  # It is the nearest of the errors that make a client try again.
        live = LiveShare(
            group_id=group_id,
            place=place,
            hosted=hosted,
            persister=self.persister,
            settings=lambda: self.settings(group_id),
            spawn=self._spawn,
            on_fenced=self._drop,
        )
        self._shares[group_id, place] = live
        self._spawn(self._load(live))
        return live

    async def _load(self, live: LiveShare) -> None:
        error = await live.load()
        facts = {"group": live.group_id, "topic": live.hosted.topic, "partition": live.hosted.index}
        if error is ErrorCode.none:
            self._logger.info("share_partition_loaded", **facts)
            live.moved()
            return
        self._logger.warning("share_partition_not_loaded", **facts, cause=error.name)
        if self._shares.get((live.group_id, live.place)) is live and error is not ErrorCode.coordinator_not_available:
            self._failed[live.group_id, live.place] = error
        self._drop(live)

    def _drop(self, live: LiveShare) -> None:
        if self._shares.get((live.group_id, live.place)) is live:
            del self._shares[live.group_id, live.place]
            self._is_full = False
        live.drop()

    def image_changed(self) -> None:
        """It is called after the partitions took the image. Drops share partitions that other brokers lead now."""
        for live in list(self._shares.values()):
            if not live.is_current:
                self._drop(live)

    # -- sessions ----------------------------------------------------------------------------------------------------

    def watch_connections(self) -> None:
        """Starts the sweep for lost connections, at the first session."""
        if not self._is_sweeping:
            self._is_sweeping = True
            self._spawn(self._sweep())

    async def _sweep(self) -> None:
        """Ends sessions of lost connections until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_MS / 1000)
            for session in self.sessions.lost():
                self.end_session(session, lambda errors: None)

    def end_if_lost(self, group_id: str, member_id: str) -> None:
        """Ends the session of a member that comes back over another connection, before the sweep has seen it."""
        session = self.sessions.get(group_id, member_id)
        if session is not None and not session.is_connected():
            self.end_session(session, lambda errors: None)

    def end_session(self, session: ShareSession, done: Callable[[dict[Place, ErrorCode]], None]) -> None:
        """Ends a session. The records that its member holds are offered again. `done` is called once, with the result
        of each partition."""
        self.sessions.close(session)
        results: dict[Place, ErrorCode] = {}
        # The member may hold records of any share partition of its group, also of those that its session has forgotten.
        lives = [live for (group_id, _), live in self._shares.items() if group_id == session.group_id]
        waiting = len(lives)

        def told(place: Place) -> Told:
            def put(error: ErrorCode, message: str | None) -> None:
                nonlocal waiting
                results[place] = error
                waiting -= 1
                if waiting == 0:
                    finished()

            return put

        def finished() -> None:
            if not self.sessions.has_group(session.group_id):
                self._group_left(session.group_id)
            done(results)

        if not lives:
            finished()
        for live in lives:
            live.release(session.member_id, told(live.place))

    def _group_left(self, group_id: str) -> None:
        """The group has no session here any more. Its share partitions are dropped, so that an admin may change its
        offsets."""
        for key in [key for key in self._shares if key[0] == group_id]:
            self._drop(self._shares[key])
        for key in [key for key in self._failed if key[0] == group_id]:
            del self._failed[key]
