"""librdkafka 4989: with idempotence, one Produce request of many records is in flight for a partition, and the thread
that waits for its answer spins.

    harness cluster up --cluster kafka      # or without --cluster; prints the addresses
    python examples/found/librdkafka_idempotence_in_flight.py ADDRESSES

writes to one partition without idempotence and with it, each with at most five requests in flight. It ends with 1 where
the client has the bug (docs/guide/found.md): idempotence never had a second request in flight.
"""

import json
import sys
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

SECONDS = 5.0
OUTSTANDING = 1024  # records without an outcome: 68 batches
RECORD = bytes(1024)
SETTINGS = {
    "acks": "all",
    "linger.ms": 5,
    "batch.size": 16384,
    "max.in.flight.requests.per.connection": 5,
    "statistics.interval.ms": 20,
}


def measured(servers, topic, is_idempotent):
    """The most requests in flight at any look, while SECONDS of records were sent."""
    in_flight, wake_ups, acked, under_way = [0], [0], 0, 0

    def look(text):
        brokers = json.loads(text)["brokers"].values()
        in_flight.append(sum(broker["waitresp_cnt"] for broker in brokers if broker["nodeid"] >= 0))
        wake_ups.append(sum(broker["wakeups"] for broker in brokers if broker["nodeid"] >= 0))

    def delivered(error, _message):
        nonlocal acked, under_way
        under_way -= 1
        acked += error is None

    settings = {**SETTINGS, "bootstrap.servers": servers, "enable.idempotence": is_idempotent, "stats_cb": look}
    producer = Producer(settings)
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    while time.monotonic() < began_s + SECONDS:
        while under_way < OUTSTANDING:
            producer.produce(topic, RECORD, on_delivery=delivered)
            under_way += 1
        producer.poll(0.005)
    took_s, cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
    sent = acked
    producer.flush(60)
    print(
        f"enable.idempotence={str(is_idempotent).lower():5} {sent / took_s:8.0f} records/s, "
        f"{cpu_s / max(1, sent) * 1e6:6.1f} us of processor time a record, {wake_ups[-1]:9} wake-ups, "
        f"at most {max(in_flight)} requests in flight"
    )
    return max(in_flight)


def main(servers):
    admin, topic = AdminClient({"bootstrap.servers": servers}), f"in-flight-{int(time.time())}"
    brokers = len(admin.list_topics(timeout=30).brokers)
    admin.create_topics([NewTopic(topic, 1, min(3, brokers))])[topic].result(60)
    without, with_idempotence = (measured(servers, topic, is_idempotent) for is_idempotent in (False, True))
    return int(without > 1 >= with_idempotence)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
