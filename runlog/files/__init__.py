"""A run directory as files: where they lie, how they are written in one step, how those of strangers are read."""
