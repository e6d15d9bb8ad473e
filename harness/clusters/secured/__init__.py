"""Clusters of ours with TLS, SASL and ACLs.

- `access`: security of a cluster's clients and what they may do
- `authority`, `token_endpoint`: who gives certificates and tokens
- `listeners`, `between_brokers`: the brokers' addresses and their own connections
- `security_changes`: what a fault changes
"""
