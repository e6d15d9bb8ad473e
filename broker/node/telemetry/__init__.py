"""Metrics that clients push (KIP-714): the rules, and the file to which they are written."""
