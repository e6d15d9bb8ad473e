"""Benchmarks of the project's own parts; run by hand or by `make bench`, not part of the installed package."""
