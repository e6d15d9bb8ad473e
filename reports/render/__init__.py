"""Writes the computed figures: the page, CSV, JSON, JUnit and Markdown, with the charts, sentences and templates."""
