"""The reference broker: a Kafka-protocol cluster in Python. `broker.node` is the process."""
