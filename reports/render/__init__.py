"""Writes what was computed: the page, CSV, JSON, JUnit and Markdown, with the charts, sentences and templates."""
