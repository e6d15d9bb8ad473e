"""Carrying out a plan: run directory, cells one after the other, evidence, and the report at the end."""
