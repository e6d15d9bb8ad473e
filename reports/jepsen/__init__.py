"""Histories of operations in the shape of Jepsen's Kafka workload: written, read and checked."""
