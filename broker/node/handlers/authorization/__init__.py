"""Who may ask for what: for each API the operations that it takes, on which resources, and what a refusal looks like.

`rules` has the parts, `data`, `groups` and `admin` the rules of the APIs, `table` all of them. Nothing of this runs
without an authorizer. docs/reference/authorization.md is written from it.
"""
