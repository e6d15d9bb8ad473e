"""What a command needs outside of itself, checked before it starts anything.

- `preflight`: addresses, trust stores, SASL, a proxy server, Java for brokers
- `java`: a Java for the analysis
- `descriptors`: file descriptors
"""
