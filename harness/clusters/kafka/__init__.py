"""Apache Kafka as an engine: the jars (jars.py) and the layout of its nodes (layout.py)."""
