"""Toxiproxy: the choice of a server, a client for it, and an embedded server with the same HTTP API."""
