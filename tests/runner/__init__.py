"""Runs the tests as `make test` and continuous integration do: a second try for some, and a part of the long ones."""
