"""Clients that are programs: `harness client check`, and the client that a command talks with itself.

- `commands`: the options of `harness client`
- `client_check`: what a client can do, and its mistakes
- `own_client`: one of ours by name, or a program
"""
