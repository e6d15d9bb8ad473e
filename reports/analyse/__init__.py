"""Queries over the streams of all cells, and the facts of each cell that follow from them."""
