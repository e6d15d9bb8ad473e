"""A member of a share group (KIP-932): one request, ShareGroupHeartbeat, and a broker that assigns.

Several members may have the same partition, so nothing is given up before another member takes it, and the broker
needs no acknowledgement of an assignment. Shown by tests/broker_client/test_client_share_member.py.
"""

from __future__ import annotations

from broker.client.core.groups.events import SendShareHeartbeat
from broker.client.core.groups.heartbeats import LEAVE_EPOCH, HeartbeatMember


class ShareMember(HeartbeatMember):
    request = "ShareGroupHeartbeat"

    def _tell_everything(self) -> None:
        self._told_topics = None

    def _heartbeat(self, epoch: int) -> SendShareHeartbeat:
        topics = self._topics if self._told_topics != self._topics else None
        self._told_topics = self._topics
        return SendShareHeartbeat(member_id=self.member_id, member_epoch=epoch, topics=topics)

    def _farewell(self, leaves_group: bool | None) -> SendShareHeartbeat:
        return SendShareHeartbeat(member_id=self.member_id, member_epoch=LEAVE_EPOCH, topics=None)
