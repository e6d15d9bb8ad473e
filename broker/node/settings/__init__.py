"""Kafka's properties to `NodeConfig`, what each setting of Kafka means here, what is in effect for a topic."""
