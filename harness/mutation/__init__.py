"""Runs chaos scenarios against wrong brokers and clients with bugs, to see whether each is caught."""
