"""A program as users write them, for `harness explore --program`: `python explore_own_app.py right`, or one with a bug.

It writes records with an idempotent producer and ends with 0 when all are delivered. `hasty` ends at the first word of
an error, although the library only tells that it connects again. `forgetful` does not look whether all was delivered,
and its library waits longer before it sends again. `careless` fails without any fault, `nameless` has a client id of
its own, and `endless` does not end if something was refused.
"""

import os
import sys

from confluent_kafka import Producer

RECORDS = 60
LONG_BACKOFF = {"retry.backoff.ms": 60_000, "retry.backoff.max.ms": 60_000}


def main(kind):
    failed, heard = [], []
    producer = Producer(
        {
            "bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"],
            "client.id": "my-app" if kind == "nameless" else os.environ["KAFKA_CLIENT_ID"],
            "enable.idempotence": True,
            "linger.ms": 5,
            "socket.timeout.ms": 10_000,
            "error_cb": heard.append,
            **(LONG_BACKOFF if kind in ("forgetful", "endless") else {}),
        }
    )
    for number in range(RECORDS):
        producer.produce(
            os.environ["KAFKA_TOPIC"],
            key=str(number % 3),
            value=f"order {number}",
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        producer.poll(0.01)
        if kind == "hasty" and heard:
            sys.exit(f"kafka is broken: {heard[0]}")
    left = producer.flush({"forgetful": 5, "endless": 600}.get(kind, 120))
    if kind != "forgetful" and (left or failed):
        sys.exit(f"{left} not delivered, {len(failed)} failed: {failed[:1]}")
    if kind == "careless":
        sys.exit("no such file: orders.csv")


if __name__ == "__main__":
    main(sys.argv[1])
