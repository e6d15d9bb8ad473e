"""The transaction coordinator (KIP-98, KIP-360, KIP-890): which producer owns a transactional id, and how its
transactions end.

    types     states, events, results and effects: the vocabulary
    metadata  Transaction: what is kept of one transactional id, and its transitions
    records   Transaction <-> the records of `__transaction_state`, in Kafka's format
    shard     TransactionShard: the state of one partition of `__transaction_state` (protocol Shard of ..runtime)

The package is pure. The shell is in broker/node/coordination: transactions.py (host, markers) and verification.py
(questions of partition leaders). Two-phase commit by the client (KIP-939) is left out.
"""
