"""The values of a trial: what is tried, and what came of it. Everything above speaks in them.

- `model`: a program of moves, and a disturbance of the requests that it causes
- `history`: what was asked of the client, what it told, and what the log holds
- `topics`: the topics of a trial, and how it numbers their partitions
- `requests_sent`: which requests a client was seen to send
"""
