"""Which topics the members of a group subscribe to (KIP-848): by name, or by a pattern in RE2.

It stores the existing topics, which it is told by events. If there is an authorizer, a pattern matches only topics that
its member may describe.
Shown by tests/broker_coordinator/test_coordinator_consumer.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import re2

from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.consumer_group import JOIN_EPOCH, ConsumerGroup, Found
from broker.coordinator.groups.draft import Refused
from broker.coordinator.groups.events import ConsumerHeartbeat, Topic
from broker.coordinator.groups.records import MemberValue
from broker.wire.errors import ErrorCode


class Subscriptions:
    def __init__(self, config: GroupConfig) -> None:
        self._config = config
        self.topics: Mapping[str, Topic] = {}
        self.names: Mapping[UUID, str] = {}  # names of the same topics, by id
        self._version = 0

    def topics_changed(self, topics: Mapping[str, Topic]) -> None:
        self._version += 1
        self.topics, self.names = topics, {topic.topic_id: name for name, topic in topics.items()}

    def of_members(self, group: ConsumerGroup) -> dict[str, dict[str, Topic]]:
        """By member id, the existing topics that the member subscribes to."""
        by_regex: dict[str, dict[str, Topic]] = {}
        found: dict[str, dict[str, Topic]] = {}
        for member_id, member in group.members.items():
            value = member.value
            topics = {name: self.topics[name] for name in value.subscribed_topic_names if name in self.topics}
            regex = value.subscribed_topic_regex
            if regex and self._config.is_guarded:
                seen = self._seen(group, member_id)
                topics.update({name: self.topics[name] for name in seen if name in self.topics})
            elif regex:
                if regex not in by_regex:
                    by_regex[regex] = self._matching(regex)
                topics.update(by_regex[regex])
            found[member_id] = topics
        return found

    def _seen(self, group: ConsumerGroup, member_id: str) -> frozenset[str]:
        """The topics that the member's pattern matched at its last heartbeat. After a fail-over and before its first
        heartbeat, these are the topics of its target."""
        found = group.found.get(member_id)
        return self._given(group, member_id) if found is None else found.topics

    def _given(self, group: ConsumerGroup, member_id: str) -> frozenset[str]:
        names = self.names
        return frozenset(names[topic_id] for topic_id in group.targets.get(member_id, {}) if topic_id in names)

    def resolve(
        self, group: ConsumerGroup, member_id: str, value: MemberValue, event: ConsumerHeartbeat, now_ms: int
    ) -> bool:
        """If there is an authorizer, a pattern matches only topics that its member may describe. Returns whether the
        result has changed. Apache Kafka keeps one result for each pattern, with the permissions of the member that
        asked last."""
        regex, old = value.subscribed_topic_regex, group.found.get(member_id)
        if not (regex and self._config.is_guarded):
            group.found.pop(member_id, None)
            return False
        if old is not None and event.member_epoch != JOIN_EPOCH:
            is_same = old.regex == regex and old.topics_version == self._version
            if is_same and now_ms < old.refresh_at_ms:
                return False
        may_describe = event.may_describe
        topics = frozenset(name for name in self._matching(regex) if may_describe is None or may_describe(name))
        group.found[member_id] = Found(
            regex=regex,
            topics=topics,
            topics_version=self._version,
            refresh_at_ms=now_ms + self._config.group_consumer_regex_refresh_interval_ms,
        )
        if old is not None:
            self._expect_the_same(group, regex, old.topics, topics)
        if old is None:
            group.is_metadata_stale = True
            return not self._given(group, member_id) <= topics
        return old.topics != topics

    def _expect_the_same(self, group: ConsumerGroup, regex: str, old: frozenset[str], new: frozenset[str]) -> None:
        """Members whose pattern matched the same so far will most likely find the same topics as this one. If they were
        left out until they ask, this member would get the partitions of a new topic, and give most of them up again.
        At its own heartbeat each finds what it may describe, before it is told anything: its version stays the old one.
        """
        for member_id, found in group.found.items():
            if found.regex == regex and found.topics == old and found.topics_version != self._version:
                group.found[member_id] = replace(found, topics=new)

    def _matching(self, regex: str) -> dict[str, Topic]:
        try:
            pattern = compiled(regex)
        except Refused:
            return {}  # another broker became the group's coordinator, so the group has no topics here
        return {name: topic for name, topic in self.topics.items() if pattern.fullmatch(name)}

    def is_unresolved(self, group: ConsumerGroup) -> bool:
        """Whether, after a fail-over, a pattern still waits for the first heartbeat of its member."""
        return self._config.is_guarded and any(
            member.value.subscribed_topic_regex and member_id not in group.found
            for member_id, member in group.members.items()
        )


def compiled(regex: str) -> re2.Pattern:
    """The pattern as an RE2 expression, as in Kafka. The time of RE2 is linear in the input, so no client's pattern can
    stall the broker."""
    options = re2.Options()
    options.log_errors = False  # the client is told the error; otherwise RE2 writes it to stderr
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)
        raise Refused(
            ErrorCode.invalid_regular_expression, f"subscribed_topic_regex {regex!r} is not a valid RE2: {reason}"
        ) from None
