"""Settings: from Kafka's properties to `NodeConfig` with its sections, the meaning of each setting of Kafka here, and
the effective settings of a topic."""
