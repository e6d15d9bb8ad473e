"""A run directory as files: their paths, how they are written in one step, and how files from somebody else are
read."""
