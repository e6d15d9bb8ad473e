"""What in a history cannot be right. Pure.

- `oracles`: the claims about any client
- `consumer_positions`: where a consumer must go on
- `own_program`: a program of somebody's: what quiet runs of it show, and what its end and its records must be
"""
