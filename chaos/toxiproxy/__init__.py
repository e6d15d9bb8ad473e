"""Toxiproxy: which server, the client towards it, and an embedded server that speaks the same HTTP API."""
