"""A client that is a process of its own and speaks the client protocol (docs/reference/client-protocol.md).

- `messages.py`: the lines, their fields and bounds.
- `conversation.py`: what has been asked, answered and accounted for, and each mistake of the other side. Pure.
- `peer.py`: the process and its pipes.
"""
