"""This broker in its cluster: quorum and controller, registration and heartbeats, requests to other nodes."""
