"""An asyncio producer under faults: the scenario goes on in its own thread while the event loop sends."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer


async def send_until(is_over, cluster):
    acknowledged = []
    producer = AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, acks="all", enable_idempotence=True, request_timeout_ms=30_000
    )
    await producer.start()
    try:
        number = 0
        while not is_over():
            value = str(number).encode()
            await producer.send_and_wait(cluster.topic, value)  # returns when it is acknowledged
            acknowledged.append(value)
            number += 1
            await asyncio.sleep(0.005)
    finally:
        await producer.stop()
    return acknowledged


@pytest.mark.chaos("leader-loss", case="acks-all")
def test_an_asyncio_producer_loses_nothing(kafka_cluster, chaos):
    chaos.begin()
    acknowledged = asyncio.run(send_until(lambda: not chaos.is_running, kafka_cluster))
    chaos.finish()  # raises if a fault was not proved
    assert acknowledged
    kafka_cluster.assert_none_lost(acknowledged)
