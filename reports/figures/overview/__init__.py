"""What a reader sees first: what was lost, what is safe, what it costs, what to run, what to doubt."""
