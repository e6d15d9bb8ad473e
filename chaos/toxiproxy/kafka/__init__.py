"""What the embedded server knows of Kafka: frame boundaries, Produce requests and responses, the wire log."""
