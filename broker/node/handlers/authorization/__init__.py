"""Authorization of requests: for each API the operations that it needs, on which resources, and the answer to a denied
request.

`rules` has the parts of a rule, the other files have the rules of the APIs, and `table` lists all rules. None of this
runs without an authorizer. docs/reference/authorization.md is written from these rules.
"""
