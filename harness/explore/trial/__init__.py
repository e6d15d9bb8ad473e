"""The values of a trial: what is tried, and what came of it. Everything above speaks in them.

- `model`: a program of moves, and a disturbance of the requests that it causes
- `history`: what was asked of the client, what it told, and what the log holds
- `requests_sent`: which requests a client was seen to send
"""
