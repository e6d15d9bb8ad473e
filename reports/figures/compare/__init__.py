"""Two runs set side by side: better, worse, same or undecided, from their run directories alone."""
