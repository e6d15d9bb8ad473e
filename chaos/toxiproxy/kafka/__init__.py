"""What the embedded server knows about Kafka: frame boundaries, Produce requests and responses, the wire log."""
