"""Settings: from Kafka's properties to `NodeConfig`, the meaning of each setting of Kafka here, and the effective
settings of a topic."""
