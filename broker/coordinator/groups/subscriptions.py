"""Which topics the members of a group subscribe to (KIP-848): by name, or by a pattern in RE2.

It stores the existing topics, which it is told by events. What a pattern matches is one answer for all members that
have it, and is in the log. A heartbeat only plans that patterns are resolved. This happens after the heartbeat, so the
members have the topics with a later one. If there is an authorizer, a pattern matches only topics that the member of
that heartbeat may describe. Shown by tests/broker_coordinator/test_coordinator_patterns.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from uuid import UUID

import re2

from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.consumer_group import ConsumerGroup
from broker.coordinator.groups.draft import Draft, Refused
from broker.coordinator.groups.events import Topic
from broker.coordinator.groups.records import MemberValue, PatternKey, PatternValue
from broker.wire.errors import ErrorCode

# At most one refresh of a group's patterns in this time, as in Kafka: each looks at every topic of the cluster.
REFRESH_MIN_INTERVAL_MS = 10_000


class Subscriptions:
    def __init__(self, config: GroupConfig) -> None:
        self._config = config
        self.topics: Mapping[str, Topic] = {}
        self._ids: Set[UUID] = frozenset()  # of the same topics
        self._version = 0  # the metadata offset that the topics are from
        self._newest_version = 0  # the one that brought the last new topic

    def topics_changed(self, topics: Mapping[str, Topic], metadata_version: int) -> None:
        ids = {topic.topic_id for topic in topics.values()}
        if not ids <= self._ids:
            self._newest_version = metadata_version
        self.topics, self._ids, self._version = topics, ids, metadata_version

    def of_members(self, group: ConsumerGroup) -> dict[str, dict[str, Topic]]:
        """By member id, the existing topics that the member subscribes to. Members with the same subscription share the
        dict, because thousands of members may have a pattern that matches thousands of topics."""
        shared: dict[tuple[tuple[str, ...], str | None], dict[str, Topic]] = {}
        found: dict[str, dict[str, Topic]] = {}
        for member_id, member in group.members.items():
            key = (member.value.subscribed_topic_names, member.value.subscribed_topic_regex)
            if key not in shared:
                shared[key] = self._of(group, *key)
            found[member_id] = shared[key]
        return found

    def of_group(self, group: ConsumerGroup) -> dict[str, Topic]:
        """The existing topics that any member subscribes to."""
        topics: dict[str, Topic] = {}
        values = [member.value for member in group.members.values()]
        for names, pattern in {(each.subscribed_topic_names, each.subscribed_topic_regex): None for each in values}:
            topics.update(self._of(group, names, pattern))
        return topics

    def _of(self, group: ConsumerGroup, names: tuple[str, ...], pattern: str | None) -> dict[str, Topic]:
        resolved = group.resolved.get(pattern or "")
        matched = [] if resolved is None else sorted(resolved.topics)  # the order is the same in each process
        return {name: self.topics[name] for name in (*names, *matched) if name in self.topics}

    def topic_ids(self, group: ConsumerGroup, value: MemberValue) -> frozenset[UUID]:
        topics = self._of(group, value.subscribed_topic_names, value.subscribed_topic_regex)
        return frozenset(topic.topic_id for topic in topics.values())

    # -- patterns ----------------------------------------------------------------------------------------------------

    def due_patterns(self, group: ConsumerGroup, old: str | None, new: str | None, wall_ms: int) -> frozenset[str]:
        """All patterns of the group, if a refresh is due. `old` and `new` are those of one member before and after its
        heartbeat, which the group does not know of yet."""
        is_new = new is not None and new != old and not group.patterns[new]
        if group.refresh is not None or not (is_new or group.patterns):
            return frozenset()
        # All patterns of a group are resolved together, so the first answer stands for all.
        last = next(iter(group.resolved.values()), None)
        age_ms = None if last is None else wall_ms - last.timestamp_ms
        if age_ms is not None and 0 <= age_ms <= REFRESH_MIN_INTERVAL_MS:
            return frozenset()
        patterns = set(group.patterns)
        if old and old != new and group.patterns[old] == 1:
            patterns.discard(old)
        if new:
            patterns.add(new)
        # an answer of the future is one of a coordinator whose clock was ahead
        is_old = age_ms is not None and not 0 <= age_ms <= self._config.group_consumer_regex_refresh_interval_ms
        has_new_topics = (0 if last is None else last.metadata_version) < self._newest_version
        is_due = is_new or len(patterns) != len(group.resolved) or has_new_topics or is_old
        return frozenset(patterns) if is_due else frozenset()

    def resolve(self, draft: Draft, wall_ms: int) -> bool:
        """Carries out the planned refresh. Returns whether a pattern matches other topics than before."""
        group, refresh = draft.group, draft.group.refresh
        assert refresh is not None
        group.refresh, has_changed, may_describe = None, False, refresh.may_describe
        for pattern in sorted(refresh.patterns & group.patterns.keys()):
            found = frozenset(name for name in self._matching(pattern) if may_describe is None or may_describe(name))
            before = group.resolved.get(pattern)
            has_changed = has_changed or found != (frozenset() if before is None else before.topics)
            value = PatternValue(topics=found, metadata_version=self._version, timestamp_ms=wall_ms)
            draft.add((PatternKey(group_id=group.group_id, pattern=pattern), value))
        return has_changed

    def drop_unused(self, draft: Draft) -> None:
        """Writes tombstones for patterns that no member has any more."""
        group = draft.group
        for pattern in sorted(group.resolved.keys() - group.patterns.keys()):
            draft.add((PatternKey(group_id=group.group_id, pattern=pattern), None))

    def _matching(self, regex: str) -> Iterator[str]:
        try:
            pattern = compiled(regex)
        except Refused:  # in the log of another broker
            return iter(())
        return (name for name in self.topics if pattern.fullmatch(name))


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
