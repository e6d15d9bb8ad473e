"""Locust users: each starts one loop in a real OS thread and waits for it without blocking Locust's hub.

Locust decides how many users run in which process; what they send and when is ours (`producer.py`, `schedule.py`).
The environment carries the process's `LoadMembers` as the attribute `load_members`.
"""

from __future__ import annotations

import threading
from typing import Any

import gevent
from locust import User, task

from workloads.consumer import ConsumerUserLoop
from workloads.context import LoadContext
from workloads.producer import ProducerUserLoop

_LOOK_S = 0.05


class LoadMembers:
    """The loops that Locust started in this process."""

    def __init__(self, context: LoadContext) -> None:
        self.context = context
        self.producers: list[ProducerUserLoop] = []
        self.consumers: list[ConsumerUserLoop] = []

    def start_producer(self) -> threading.Thread:
        loop = ProducerUserLoop(self.context)
        self.producers.append(loop)
        return _start_thread(loop.run, f"producer-{loop.number}")

    def start_consumer(self) -> threading.Thread:
        loop = ConsumerUserLoop(self.context)
        self.consumers.append(loop)
        return _start_thread(loop.run, f"consumer-{loop.number}")


def _start_thread(target: Any, name: str) -> threading.Thread:
    thread = threading.Thread(target=target, name=name, daemon=True)
    thread.start()
    return thread


class _ThreadUser(User):
    abstract = True

    def members(self) -> LoadMembers:
        members: LoadMembers = self.environment.load_members
        return members

    def watch(self, start: Any) -> None:
        try:
            thread = start()
        except Exception as error:  # Locust would log it, wait and try again for ever
            self.members().context.add_error(f"{type(self).__name__}: {error}")
        else:
            while thread.is_alive():
                gevent.sleep(_LOOK_S)
        while True:  # stay counted as running until the runner stops its users
            gevent.sleep(1.0)


class ProducerUser(_ThreadUser):
    @task
    def produce(self) -> None:
        self.watch(self.members().start_producer)


class ConsumerUser(_ThreadUser):
    @task
    def consume(self) -> None:
        self.watch(self.members().start_consumer)


def user_classes(producers: int, consumers: int) -> list[type[User]]:
    """The two classes with exact counts, so that Locust spawns neither more nor fewer of either."""
    ProducerUser.fixed_count = producers
    ConsumerUser.fixed_count = consumers
    return [user for user, count in ((ProducerUser, producers), (ConsumerUser, consumers)) if count]
