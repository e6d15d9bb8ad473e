"""A real server whose behaviour is known beforehand, and whether the engine measures just that. See `__main__`."""
