"""The topics of a trial, and how it numbers their partitions.

All but this file know partitions by one number, whatever topic they are in: with two topics of three partitions 0 to 2
are the first one's and 3 to 5 the second one's. So what judges a history need not know of topics. Pure. Shown by
tests/harness/test_harness_explore_topics.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topics:
    """`partitions` of each. A trial with one topic may add more of them, which are numbered on."""

    names: tuple[str, ...]
    partitions: int

    @classmethod
    def of_trial(cls, name: str, topics: int, partitions: int) -> Topics:
        """The first one has the trial's name."""
        return cls((name, *(f"{name}-{number}" for number in range(2, topics + 1))), partitions)

    @property
    def count(self) -> int:
        """Of all partitions that there are at the beginning."""
        return len(self.names) * self.partitions

    def place(self, number: int) -> tuple[str, int]:
        """The topic, and which of its partitions it is."""
        topic = self.topic_of(number)
        return self.names[topic], number - topic * self.partitions

    def topic_of(self, number: int) -> int:
        """Its index among the names."""
        return 0 if len(self.names) == 1 else number // self.partitions

    def number(self, topic: str, partition: int) -> int:
        """A topic that is not one of these counts as the first one, whose log shows what does not belong there."""
        index = self.names.index(topic) if topic in self.names else 0
        return index * self.partitions + partition
