"""Which Kafka toxics have acted, on whichever proxy of the server: others wait for them (attribute `after`).

What a client does in the recovery from a fault follows within milliseconds, and it may follow on another connection to
another broker. So all proxies of a server share this, and nobody asks from outside.

A toxic that was removed has still acted. Its name is forgotten when no toxic has it and none waits for it any more, so
this never holds more than the names of the toxics that are there. Shown by tests/chaos/test_chaos_kafka_turns.py.
"""

from __future__ import annotations

from collections import Counter

from chaos.toxiproxy.toxic import Toxic

AFTER = "after"


class Turns:
    def __init__(self) -> None:
        self._acted: Counter[str] = Counter()
        self._holders: Counter[str] = Counter()  # toxics that have the name, or wait for it

    def hold(self, names: tuple[str, ...]) -> None:
        """A toxic with these names (`names_of`) is there from now on."""
        self._holders.update(names)

    def drop(self, names: tuple[str, ...]) -> None:
        """It is there no more."""
        for name in names:
            self._holders[name] -= 1
            assert self._holders[name] >= 0
            if not self._holders[name]:
                del self._holders[name]
                self._acted.pop(name, None)

    def note(self, toxic: Toxic) -> None:
        """It acts on one more request."""
        self._acted[toxic.name] += 1

    def take_back(self, toxic: Toxic) -> None:
        """It could not act on a request that was noted. It may have been removed meanwhile, and be forgotten."""
        if toxic.name in self._acted:
            self._acted[toxic.name] -= 1

    def has_come(self, toxic: Toxic, besides: list[Toxic]) -> bool:
        """Whether it may act. `besides`: those that act on the same request. The one that it waits for has not acted
        before this request if it acts on this one for the first time."""
        after = toxic.attributes.get(AFTER)
        if not after:
            return True
        return self._acted[str(after)] > sum(each.name == after for each in besides)


def names_of(toxic: Toxic) -> tuple[str, ...]:
    after = toxic.attributes.get(AFTER)
    return (toxic.name, str(after)) if after else (toxic.name,)
