"""The front page: what was lost, what is safe, what it costs, what to run, and the doubts."""
