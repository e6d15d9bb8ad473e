"""Compares two runs: better, worse, same or undecided, from their run directories alone."""
